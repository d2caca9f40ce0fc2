"""Marian's recurrent models with GRUs (types s2s, amun and nematus).

Names and meanings are those of Marian's src/models/s2s.h and src/rnn/cells.h: matrices are [in, out] and are turned
here. The gates are r and z in one matrix, the new state in another; the first cell of each layer has the bias of its
new state outside the reset gate, the decoder's second cell inside it. Encoder layers of type "bidirectional" read the
layer below of their own direction only, those of type "alternating" that of the other one: our layers read both, and
have zeros for the one that is not read. The GRU above the decoder's first layer begins in the same state as that one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.formats.weights import Stored, Tensor, Weights, values
from sharpbeam.convert.readers.marian_vocabulary import read_embeddings
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
_NEMATUS = {  # what Nematus and Amun call it -> Marian's name (its src/models/amun.h)
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
    """`arrays` under the names that Marian itself has for them, where a file has those of Nematus and Amun."""
    if "ff_state_W" not in arrays:
        return dict(arrays)
    return {_marian_name(name, "Wemb_dec" in arrays): array for name, array in arrays.items()}


def _marian_name(name: str, apart: bool) -> str:
    """Where the target's embeddings stand `apart`, Wemb is the source's."""
    if name == "Wemb" and apart:
        return "encoder_Wemb"
    for theirs, ours in _NEMATUS.items():
        if match := re.fullmatch(theirs, name):
            return match.expand(ours)
    return name


def read_recurrent(facts: Facts, weights: Weights) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The facts of GruConfig except tokens, and the tensors."""
    facts = facts.with_defaults(_DEFAULTS)
    for name, allowed in _ONLY.items():
        facts.require(name, allowed)
    if facts.flag("skip") and max(facts.integer("enc-depth"), facts.integer("dec-depth")) > 1:
        raise facts.refusal("skip", "false in a model of several layers; Sharpbeam lacks what it asks for")
    return _MarianGru(facts, weights).read()


class _MarianGru:
    """The options and the weights of a recurrent model of Marian, and our tensors."""

    def __init__(self, facts: Facts, weights: Weights) -> None:
        self._facts, self._weights = facts, weights
        self._tensors: dict[str, Tensor] = {}
        # Whether the first stack's states come after the second one's.
        self._swapped = facts.text("enc-type") == "alternating" and facts.integer("enc-depth") % 2 == 0

    def read(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The facts of GruConfig except tokens, and the tensors."""
        w, top = self._weights, self._facts.integer("dec-depth") == 2
        words, tensors = read_embeddings(w, "decoder_ff_logit_l2")
        self._tensors = tensors
        embedding = self._tensors["target_embedding"].shape[1]
        encoder, decoder = (w.matrix_shape(f"{name}_Ux")[0] for name in ("encoder_bi", "decoder_cell1"))
        memory, layers = 2 * encoder, self._facts.integer("enc-depth")
        self._encoder(layers, embedding, encoder)
        self._linear("decoder_ff_state", "decoder.bridge", memory, decoder)
        self._gru("decoder_cell1", "decoder.first", embedding, decoder)
        self._gru("decoder_cell2", "decoder.second", memory, decoder, final=True)
        self._attention(memory, decoder)
        if top:
            self._gru("decoder_l2_cell1", "decoder.top_gru", decoder, decoder)
        self._readout(embedding, decoder, memory)
        sizes = words | {
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
        return sizes, self._tensors

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

    def _gru(self, theirs: str, ours: str, inputs: int, dim: int, final: bool = False) -> None:
        w, t = self._weights, self._tensors
        source = ours == "decoder.second"
        gates, new = w.take(f"{theirs}_W", inputs, 2 * dim), w.take(f"{theirs}_Wx", inputs, dim)
        joined = np.concatenate([gates, new], axis=1)
        t[f"{ours}.input_weight"] = _turned(self._memory(joined) if source else joined)
        t[f"{ours}.hidden_weight"] = _turned(
            np.concatenate([w.take(f"{theirs}_U", dim, 2 * dim), w.take(f"{theirs}_Ux", dim, dim)], axis=1)
        )
        bias, zero = [w.take(f"{theirs}_b", 2 * dim), w.take(f"{theirs}_bx", dim)], np.zeros(dim, np.float32)
        t[f"{ours}.input_bias"] = np.concatenate([bias[0], zero if final else bias[1]])
        t[f"{ours}.hidden_bias"] = np.concatenate([zero, zero, bias[1] if final else zero])

    def _attention(self, memory: int, decoder: int) -> None:
        w, ours = self._weights, "decoder.attention"
        self._tensors[f"{ours}.query_weight"] = _turned(w.take("decoder_W_comb_att", decoder, memory))
        self._tensors[f"{ours}.key_weight"] = _turned(self._memory(w.take("decoder_Wc_att", memory, memory)))
        self._tensors[f"{ours}.key_bias"] = w.take("decoder_b_att", memory)
        self._tensors[f"{ours}.score_weight"] = w.take("decoder_U_att", memory, 1)[:, 0].copy()

    def _readout(self, embedding: int, decoder: int, memory: int) -> None:
        """Marian adds products of the word, the state and the context; ours is one product of state, context, word."""
        w, theirs, dim = self._weights, "decoder_ff_logit_l1", embedding
        of_word, of_state = w.take(f"{theirs}_W0", embedding, dim), w.take(f"{theirs}_W1", decoder, dim)
        of_context = self._memory(w.take(f"{theirs}_W2", memory, dim))
        self._tensors["decoder.readout.weight"] = _turned(np.concatenate([of_state, of_context, of_word]))
        self._tensors["decoder.readout.bias"] = np.sum([w.take(f"{theirs}_b{i}", dim) for i in range(3)], axis=0)

    def _linear(self, theirs: str, ours: str, memory: int, outputs: int) -> None:
        self._tensors[f"{ours}.weight"] = _turned(self._memory(self._weights.take(f"{theirs}_W", memory, outputs)))
        self._tensors[f"{ours}.bias"] = self._weights.take(f"{theirs}_b", outputs)

    def _memory(self, matrix: Floats) -> Floats:
        """A matrix that reads the encoder's states [M, out], in our order."""
        half = len(matrix) // 2
        return np.concatenate([matrix[half:], matrix[:half]]) if self._swapped else matrix


def _turned(matrix: Floats) -> Floats:
    return np.ascontiguousarray(matrix.T)
