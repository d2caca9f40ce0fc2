"""Marian's transformers and students with an SSRU.

Names and meanings are those of Marian's src/models/transformer.h: matrices are [in, out] and are transposed here,
positions are sinusoids of tensor2tensor, norms have an epsilon of 1e-6.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.formats.weights import Tensor, Weights
from sharpbeam.convert.readers.marian_vocabulary import read_embeddings
from sharpbeam.convert.readers.transformer import add_layers
from sharpbeam.errors import ModelError

_ACTIVATIONS = {"relu": "relu", "swish": "swish", "gelu": "gelu"}
_EXACT_GELU = (1, 12, 3)  # the version from which on "gelu" is x Phi(x); before, it is x sigmoid(1.702 x)
_ABSENT = (
    "transformer-no-projection",
    "transformer-train-position-embeddings",
    "transformer-disable-position-embeddings",
    "transformer-pool",
    "ulr",
)
_OUTSIDE = {
    "encoder_norm": "encoder_top",
    "decoder_norm": "decoder_top",
    "source_embedding_norm": "encoder_emb",
    "target_embedding_norm": "decoder_emb",
}
_NORMS = {"attention.norm": "self_Wo", "cross.norm": "context_Wo", "ffn.norm": "ffn_ffn"}
_PARTS = {  # of a layer, by our names: a block, and the letters of its matrices of one input
    "attention.qkv": ("self", "qkv"),
    "attention.out": ("self", "o"),
    "ssru.out": ("rnn", "o"),
    "cross.query": ("context", "q"),
    "cross.key_value": ("context", "kv"),
    "cross.out": ("context", "o"),
    "ffn.up": ("ffn", "1"),
    "ffn.down": ("ffn", "2"),
}


def read_transformer(facts: Facts, weights: Weights) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The facts of TransformerConfig except tokens, and the tensors."""
    facts.require("transformer-ffn-depth", [2])
    facts.require("transformer-decoder-ffn-depth", [0, 2])
    facts.require("transformer-attention-mask", ["default"])
    for name in _ABSENT:
        facts.require(name, [False])
    return _MarianTransformer(facts, weights).read()


def _activation(facts: Facts) -> str:
    """The activation as it was in the version of Marian that wrote the model."""
    name = facts.choice("transformer-ffn-activation", _ACTIVATIONS)
    written_by = re.match(r"v(\d+)\.(\d+)\.(\d+)", facts.text("version"))
    exact = written_by is not None and tuple(map(int, written_by.groups())) >= _EXACT_GELU
    return name if name != "gelu" or exact else "gelu_sigmoid"


class _MarianTransformer:
    """The options and the weights of a transformer of Marian, and our tensors."""

    def __init__(self, facts: Facts, weights: Weights) -> None:
        self._facts, self._weights = facts, weights
        self._words, self._tensors = read_embeddings(weights, "decoder_ff_logit_out")
        self._dim = self._tensors["target_embedding"].shape[1]

    def read(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The facts of TransformerConfig except tokens, and the tensors."""
        facts = self._facts
        before, after, top = (
            facts.text(f"transformer-{name}").replace("d", "")
            for name in ("preprocess", "postprocess", "postprocess-top")
        )
        if (before, after, top) not in (("", "an", ""), ("n", "a", "n")):
            raise facts.refusal("transformer-postprocess", "'dan', or 'da' with preprocess 'n' and postprocess-top 'n'")
        autoreg = facts.text("transformer-decoder-autoreg") or "self-attention"
        if autoreg not in ("self-attention", "rnn") or (autoreg == "rnn" and facts.text("dec-cell") != "ssru"):
            raise facts.refusal("transformer-decoder-autoreg", "self-attention, or rnn with dec-cell ssru")
        sizes = self._words | {
            "hidden_dim": self._dim,
            "encoder_layers": facts.integer("enc-depth"),
            "decoder_layers": facts.integer("dec-depth"),
            "encoder_heads": facts.integer("transformer-heads"),
            "decoder_heads": facts.integer("transformer-heads"),
            "norm": "pre" if before else "post",
            "encoder_final_norm": bool(top),
            "decoder_final_norm": bool(top),
            "embedding_norm": "n" in facts.text("transformer-postprocess-emb"),
            "norm_epsilon": 1e-6,
            "activation": _activation(facts),
            "positions": "sinusoidal-t2t",
            "decoder_kind": "attention" if autoreg == "self-attention" else "ssru",
            "ssru_projection": autoreg == "rnn" and facts.flag("transformer-rnn-projection"),
        }
        if "Wpos" in self._weights:
            raise ModelError(f"{facts.path}: it has trained positions (Wpos), which are not read yet.")
        for side in ("encoder", "decoder"):
            sizes[f"{side}_ffn_dim"] = self._weights.matrix_shape(f"{side}_l1_ffn_W1")[1]
        for layer in range(sizes["decoder_layers"] if sizes["decoder_kind"] == "ssru" else 0):
            forget = self._weights.take(f"decoder_l{layer + 1}_rnn_bf", self._dim)
            self._tensors[f"decoder.{layer}.ssru.cell.bias"] = np.concatenate([np.zeros_like(forget), forget])
        add_layers(self._tensors, sizes, lambda name: self._theirs(name, sizes["norm"]))
        return sizes, self._tensors

    def _theirs(self, name: str, norm: str) -> list[str]:
        """The arrays that one of our tensors is made of."""
        stem, _, kind = name.rpartition(".")
        if stem in _OUTSIDE:
            return self._norm(_OUTSIDE[stem], kind)
        side, number, part = stem.split(".", 2)
        layer = f"{side}_l{int(number) + 1}"
        if part == "ssru.cell":  # whose bias is not all there
            return [f"{layer}_rnn_W", f"{layer}_rnn_Wf"]
        if part == "ssru.norm":
            return self._norm(f"{layer}_rnn" if norm == "pre" else f"{layer}_rnn_ffn", kind)
        if part.endswith("norm"):
            return self._norm(f"{layer}_{_NORMS[part]}", kind)
        block, letters = _PARTS[part]
        return [f"{layer}_{block}_{'W' if kind == 'weight' else 'b'}{letter}" for letter in letters]

    def _norm(self, theirs: str, kind: str) -> list[str]:
        suffix = "_pre" if f"{theirs}_ln_scale_pre" in self._weights else ""
        return [f"{theirs}_ln_{'scale' if kind == 'weight' else 'bias'}{suffix}"]
