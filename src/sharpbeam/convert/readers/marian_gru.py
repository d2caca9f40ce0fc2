"""Marian's recurrent models with GRUs (types s2s, amun and nematus).

Names and meanings are those of Marian's src/models/s2s.h and src/rnn/cells.h: the gates are r and z in one matrix, the
new state in another; the first cell of each layer has the bias of its new state outside the reset gate, the decoder's
second cell inside it. Encoder layers of type "bidirectional" read the layer below of their own direction only, those of
type "alternating" that of the other one: our layers read both, and have zeros for the one that is not read. The GRU
above the decoder's first layer begins in the same state as that one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.formats.weights import Stored, Tensors, values
from sharpbeam.types import Floats

_DEFAULTS = {
    "enc-type": "bidirectional", "enc-cell": "gru", "enc-cell-depth": 1, "enc-depth": 1, "dec-cell": "gru",
    "dec-cell-base-depth": 2, "dec-cell-high-depth": 1, "dec-depth": 1, "skip": False,
}  # fmt: skip
_ONLY: dict[str, list[Any]] = {
    "enc-type": ["bidirectional", "alternating"],
    "enc-cell": ["gru", "gru-nematus"],  # the same without layer normalization
    "dec-cell": ["gru", "gru-nematus"],
    "enc-cell-depth": [1],
    "dec-cell-base-depth": [2],
    "dec-cell-high-depth": [1],
    "dec-depth": [1, 2],
}
_NEMATUS = {  # the name of Nematus and Amun -> Marian's (its src/models/amun.h)
    r"Wemb_dec": "decoder_Wemb",
    r"ff_logit_([Wb])": r"decoder_ff_logit_l2_\1",
    r"ff_logit_prev_([Wb])": r"decoder_ff_logit_l1_\g<1>0",
    r"ff_logit_lstm_([Wb])": r"decoder_ff_logit_l1_\g<1>1",
    r"ff_logit_ctx_([Wb])": r"decoder_ff_logit_l1_\g<1>2",
    r"ff_state_([Wb])": r"decoder_ff_state_\1",
    r"encoder_([UWb]x?)": r"encoder_bi_\1",
    r"encoder_r_([UWb]x?)": r"encoder_bi_r_\1",
    r"decoder_([UWb]x?)": r"decoder_cell1_\1",
    r"decoder_([Ub]x?)_nl": r"decoder_cell2_\1",
    r"decoder_Wc(x?)": r"decoder_cell2_W\1",
}


def marian_names(arrays: Mapping[str, Stored]) -> dict[str, Stored]:
    """`arrays` under Marian's own names, which files of Nematus and Amun lack."""
    if "ff_state_W" not in arrays:
        return dict(arrays)
    return {_marian_name(name, "Wemb_dec" in arrays): array for name, array in arrays.items()}


def _marian_name(name: str, apart: bool) -> str:
    """The name in Marian; Wemb is the source's embedding if the target's is `apart`."""
    if name == "Wemb" and apart:
        return "encoder_Wemb"
    for theirs, ours in _NEMATUS.items():
        if match := re.fullmatch(theirs, name):
            return match.expand(ours)
    return name


def read_recurrent(facts: Facts, tensors: Tensors, embeddings: dict[str, Any]) -> dict[str, Any]:
    """Fill the `tensors`, which have the embeddings; returns the facts of GruConfig except tokens."""
    facts = facts.with_defaults(_DEFAULTS)
    for name, allowed in _ONLY.items():
        facts.require(name, allowed)
    if facts.flag("skip") and max(facts.integer("enc-depth"), facts.integer("dec-depth")) > 1:
        raise facts.refusal("skip", "false in a model of several layers; Sharpbeam lacks skip connections")
    return _MarianGru(facts, tensors).read(embeddings)


class _MarianGru:
    """The options and the weights of a recurrent model of Marian, and our tensors."""

    def __init__(self, facts: Facts, tensors: Tensors) -> None:
        self._facts, self._weights, self._tensors = facts, tensors.weights, tensors
        # Whether the first stack's states come after the second one's.
        self._swapped = facts.text("enc-type") == "alternating" and facts.integer("enc-depth") % 2 == 0

    def read(self, embeddings: dict[str, Any]) -> dict[str, Any]:
        """The facts of GruConfig except tokens."""
        w, top = self._weights, self._facts.integer("dec-depth") == 2
        embedding = embeddings.pop("hidden_dim")
        encoder, decoder = (w.matrix_shape(f"{name}_Ux")[1] for name in ("encoder_bi", "decoder_cell1"))
        memory, layers = 2 * encoder, self._facts.integer("enc-depth")
        self._encoder(layers, embedding, encoder)
        self._tensors["decoder.bridge.weight"] = self._memory(w.take("decoder_ff_state_W", decoder, memory))
        self._tensors["decoder.bridge.bias"] = w.take("decoder_ff_state_b", decoder)
        self._gru("decoder_cell1", "decoder.first", embedding, decoder)
        self._gru("decoder_cell2", "decoder.second", memory, decoder, second=True)
        self._attention(memory, decoder)
        if top:
            self._gru("decoder_l2_cell1", "decoder.top_gru", decoder, decoder)
        self._readout(embedding, decoder, memory)
        return embeddings | {
            "embedding_dim": embedding,
            "encoder_layers": layers,
            "encoder_dim": encoder,
            "decoder_dim": decoder,
            "decoder_cell": "conditional",
            "attention": "mlp",
            "attention_dim": memory,
            "top": "gru" if top else "none",
            "top_dim": decoder if top else 0,
            "top_start": "bottom" if top else "zero",
            "readout": "tanh",
            "hidden_dim": embedding,
        }

    def _encoder(self, layers: int, embedding: int, dim: int) -> None:
        """Two stacks; of type "alternating" the first one reads its layers forwards and backwards in turn."""
        alternates = self._facts.text("enc-type") == "alternating"
        for layer in range(layers):
            for stack, name in enumerate(("encoder_bi", "encoder_bi_r")):
                turned = (stack + (layer if alternates else 0)) % 2  # 1: this stack reads this layer backwards
                ours = f"encoder.{layer}.{('forwards', 'backwards')[turned]}"
                if layer == 0:
                    self._gru(name, ours, embedding, dim)
                    continue
                self._gru(f"{name}_l{layer + 1}_cell1", ours, dim, dim)
                below = 1 - turned if alternates else turned
                wide = np.zeros((3 * dim, 2 * dim), np.float32)
                wide[:, below * dim : (below + 1) * dim] = values(self._tensors[f"{ours}.input_weight"])
                self._tensors[f"{ours}.input_weight"] = wide

    def _gru(self, theirs: str, ours: str, inputs: int, dim: int, second: bool = False) -> None:
        """One GRU; the decoder's `second` one reads the encoder's states."""
        w, t = self._weights, self._tensors
        matrix = np.concatenate([w.take(f"{theirs}_W", 2 * dim, inputs), w.take(f"{theirs}_Wx", dim, inputs)])
        t[f"{ours}.input_weight"] = self._memory(matrix) if second else matrix
        t[f"{ours}.hidden_weight"] = np.concatenate(
            [w.take(f"{theirs}_U", 2 * dim, dim), w.take(f"{theirs}_Ux", dim, dim)]
        )
        gates, state, zero = w.take(f"{theirs}_b", 2 * dim), w.take(f"{theirs}_bx", dim), np.zeros(dim, np.float32)
        t[f"{ours}.input_bias"] = np.concatenate([gates, zero if second else state])
        t[f"{ours}.hidden_bias"] = np.concatenate([zero, zero, state if second else zero])

    def _attention(self, memory: int, decoder: int) -> None:
        w, t, ours = self._weights, self._tensors, "decoder.attention"
        t[f"{ours}.query_weight"] = w.take("decoder_W_comb_att", memory, decoder)
        t[f"{ours}.key_weight"] = self._memory(w.take("decoder_Wc_att", memory, memory))
        t[f"{ours}.key_bias"] = w.take("decoder_b_att", memory)
        t[f"{ours}.score_weight"] = w.take("decoder_U_att", 1, memory)[0]

    def _readout(self, dim: int, decoder: int, memory: int) -> None:
        """One product of state, context and token, of which Marian adds three."""
        w, theirs = self._weights, "decoder_ff_logit_l1"
        token, state = w.take(f"{theirs}_W0", dim, dim), w.take(f"{theirs}_W1", dim, decoder)
        context = self._memory(w.take(f"{theirs}_W2", dim, memory))
        self._tensors["decoder.readout.weight"] = np.concatenate([state, context, token], axis=1)
        self._tensors["decoder.readout.bias"] = np.sum([w.take(f"{theirs}_b{i}", dim) for i in range(3)], axis=0)

    def _memory(self, matrix: Floats) -> Floats:
        """A matrix that reads the encoder's states [out, M], in our order."""
        return np.roll(matrix, matrix.shape[1] // 2, axis=1) if self._swapped else matrix
