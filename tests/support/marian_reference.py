"""Marian's recurrent models in NumPy, for reading: its s2s.h, rnn/cells.h (GRU) and rnn/attention.h, on its own arrays.

Written from Marian's source, apart from our reader: every array keeps Marian's name and its [in, out] shape.
"""

from __future__ import annotations

import numpy as np


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


class MarianRnn:
    """One model; `arrays` by Marian's names, biases [1, n]."""

    def __init__(self, arrays, options):
        self.p = {name: np.asarray(array, np.float64) for name, array in arrays.items()}
        self.options = options

    def cell(self, prefix, x, state, final=False):
        """gruOps: the state, x W, state U, b -> the next state."""
        p, n = self.p, state.shape[-1]
        u = np.concatenate([state @ p[f"{prefix}_U"], state @ p[f"{prefix}_Ux"]], -1)
        w = np.concatenate([x @ p[f"{prefix}_W"], x @ p[f"{prefix}_Wx"]], -1)
        b = np.concatenate([p[f"{prefix}_b"], p[f"{prefix}_bx"]], -1)[0]
        r = sigmoid(w[:n] + u[:n] + b[:n])
        z = sigmoid(w[n : 2 * n] + u[n : 2 * n] + b[n : 2 * n])
        if final:
            h = np.tanh(w[2 * n :] + (u[2 * n :] + b[2 * n :]) * r)
        else:
            h = np.tanh(w[2 * n :] + u[2 * n :] * r + b[2 * n :])
        return (1.0 - z) * h + z * state

    def stack(self, prefix, x, backward):
        """One of the encoder's two stacks: [S, E] -> [S, H]."""
        for layer in range(1, self.options["enc-depth"] + 1):
            name = prefix if layer == 1 else f"{prefix}_l{layer}_cell1"
            turned = backward != (self.options["enc-type"] == "alternating" and layer % 2 == 0)
            out = [None] * len(x)
            state = np.zeros(self.p[f"{name}_Ux"].shape[0])
            for j in range(len(x))[:: -1 if turned else 1]:
                state = out[j] = self.cell(name, x[j], state)
            x = np.array(out)
        return x

    def encode(self, source):
        table = self.p["Wemb" if "Wemb" in self.p else "encoder_Wemb"][source]
        both = self.stack("encoder_bi", table, False), self.stack("encoder_bi_r", table, True)
        return np.concatenate(both, -1)  # [S, 2 H]

    def log_probs(self, source, target):
        """log p(y_t | y_<t, x) of all words, [T, V], for `target` = y_1 .. y_T."""
        p = self.p
        context = self.encode(source)
        start = np.tanh(context.mean(0) @ p["decoder_ff_state_W"] + p["decoder_ff_state_b"][0])
        states = [start] * self.options["dec-depth"]
        table = p["Wemb" if "Wemb" in p else "decoder_Wemb"]
        keys = context @ p["decoder_Wc_att"] + p["decoder_b_att"]
        rows = []
        for word in [None, *target[:-1]]:
            y = np.zeros(table.shape[1]) if word is None else table[word]
            between = self.cell("decoder_cell1", y, states[0])
            scores = np.tanh(keys + between @ p["decoder_W_comb_att"]) @ p["decoder_U_att"][:, 0]
            aligned = softmax(scores) @ context
            top = states[0] = self.cell("decoder_cell2", aligned, between, final=True)
            for layer in range(2, self.options["dec-depth"] + 1):
                top = states[layer - 1] = self.cell(f"decoder_l{layer}_cell1", top, states[layer - 1])
            parts = zip((y, top, aligned), "012", strict=True)
            name = "decoder_ff_logit_l1"
            hidden = np.tanh(sum(x @ p[f"{name}_W{i}"] + p[f"{name}_b{i}"][0] for x, i in parts))
            matrix = p.get("decoder_ff_logit_l2_W", table.T)
            logits = hidden @ matrix + p["decoder_ff_logit_l2_b"][0]
            rows.append(np.log(softmax(logits)))
        return np.array(rows)
