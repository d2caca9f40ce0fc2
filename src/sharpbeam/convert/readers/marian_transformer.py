"""Marian's transformers and students with an SSRU.

Names and meanings are those of Marian's src/models/transformer.h: matrices are [in, out] and are turned here, positions
are sinusoids of tensor2tensor, norms have an epsilon of 1e-6.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.formats.weights import Weights
from sharpbeam.convert.readers.marian_vocabulary import read_embeddings
from sharpbeam.errors import ModelError
from sharpbeam.types import Floats

_ACTIVATIONS = {"relu": "relu", "swish": "swish", "gelu": "gelu"}
_EXACT_GELU = (1, 12, 3)  # the version from which on "gelu" is x Phi(x); before, it is x sigmoid(1.702 x)
_ABSENT = (
    "transformer-no-projection",
    "transformer-train-position-embeddings",
    "transformer-disable-position-embeddings",
    "transformer-pool",
    "ulr",
)


def read_transformer(facts: Facts, weights: Weights) -> tuple[dict[str, Any], dict[str, Floats]]:
    """The facts of TransformerConfig but for words, and the tensors."""
    facts.require("transformer-ffn-depth", [2])
    facts.require("transformer-decoder-ffn-depth", [0, 2])
    facts.require("transformer-attention-mask", ["default"])
    for name in _ABSENT:
        facts.require(name, [False])
    return _Model(facts, weights).read()


def _activation(facts: Facts) -> str:
    """The activation as it was in the version of Marian that wrote the model."""
    name = facts.choice("transformer-ffn-activation", _ACTIVATIONS)
    written_by = re.match(r"v(\d+)\.(\d+)\.(\d+)", facts.text("version"))
    exact = written_by is not None and tuple(map(int, written_by.groups())) >= _EXACT_GELU
    return name if name != "gelu" or exact else "gelu_sigmoid"


class _Model:
    """The options and the weights."""

    def __init__(self, facts: Facts, weights: Weights) -> None:
        self._facts, self._weights = facts, weights

    def read(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """The facts of TransformerConfig but for words, and the tensors."""
        facts, w = self._facts, self._weights
        before, behind, top = (
            facts.text(f"transformer-{name}").replace("d", "")
            for name in ("preprocess", "postprocess", "postprocess-top")
        )
        if (before, behind, top) not in (("", "an", ""), ("n", "a", "n")):
            raise facts.refusal("transformer-postprocess", "'dan', or 'da' with preprocess 'n' and postprocess-top 'n'")
        look_back = facts.text("transformer-decoder-autoreg") or "self-attention"
        if look_back not in ("self-attention", "rnn") or (look_back == "rnn" and facts.text("dec-cell") != "ssru"):
            raise facts.refusal("transformer-decoder-autoreg", "self-attention, or rnn with dec-cell ssru")
        words, tensors = read_embeddings(w, "decoder_ff_logit_out")
        dim = tensors["target_embedding"].shape[1]
        sizes = words | {
            "hidden_dim": dim,
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
            "decoder_kind": "attention" if look_back == "self-attention" else "ssru",
            "ssru_projection": look_back == "rnn" and facts.flag("transformer-rnn-projection"),
        }
        if "Wpos" in w:
            raise ModelError(f"{facts.path}: it has trained positions (Wpos), which are not read yet.")
        for side in ("encoder", "decoder"):
            for layer in range(sizes[f"{side}_layers"]):
                self._layer(side, layer, sizes, tensors)
            if top:
                self._norm(f"{side}_top", f"{side}_norm", dim, tensors)
            if sizes["embedding_norm"]:
                self._norm(f"{side}_emb", f"{'source' if side == 'encoder' else 'target'}_embedding_norm", dim, tensors)
        return sizes, tensors

    def _layer(self, side: str, layer: int, sizes: dict[str, Any], tensors: dict[str, Floats]) -> None:
        theirs, ours, dim = f"{side}_l{layer + 1}", f"{side}.{layer}", sizes["hidden_dim"]
        if side == "decoder" and sizes["decoder_kind"] == "ssru":
            self._ssru(f"{theirs}_rnn", f"{ours}.ssru", sizes, tensors)
        else:
            self._products(f"{theirs}_self", f"{ours}.attention.qkv", "qkv", dim, tensors)
            self._products(f"{theirs}_self", f"{ours}.attention.out", "o", dim, tensors)
            self._norm(f"{theirs}_self_Wo", f"{ours}.attention.norm", dim, tensors)
        if side == "decoder":
            for name, letters in (("query", "q"), ("key_value", "kv"), ("out", "o")):
                self._products(f"{theirs}_context", f"{ours}.cross.{name}", letters, dim, tensors)
            self._norm(f"{theirs}_context_Wo", f"{ours}.cross.norm", dim, tensors)
        _, width = self._weights.matrix_shape(f"{theirs}_ffn_W1")
        if sizes.setdefault(f"{side}_ffn_dim", width) != width:
            raise ModelError(f"{self._facts.path}: the layers of its {side} have different widths.")
        for name, number, shape in (("up", 1, (dim, width)), ("down", 2, (width, dim))):
            self._linear(f"{theirs}_ffn_W{number}", f"{theirs}_ffn_b{number}", f"{ours}.ffn.{name}", shape, tensors)
        self._norm(f"{theirs}_ffn_ffn", f"{ours}.ffn.norm", dim, tensors)

    def _ssru(self, theirs: str, ours: str, sizes: dict[str, Any], tensors: dict[str, Floats]) -> None:
        w, dim = self._weights, sizes["hidden_dim"]
        matrices = [w.take(f"{theirs}_{name}", dim, dim).T for name in ("W", "Wf")]
        tensors[f"{ours}.cell.weight"] = np.ascontiguousarray(np.concatenate(matrices))
        tensors[f"{ours}.cell.bias"] = np.concatenate([np.zeros(dim, np.float32), w.take(f"{theirs}_bf", dim)])
        if sizes["ssru_projection"]:
            self._products(theirs, f"{ours}.out", "o", dim, tensors)
        self._norm(theirs if sizes["norm"] == "pre" else f"{theirs}_ffn", f"{ours}.norm", dim, tensors)

    def _products(self, theirs: str, ours: str, letters: str, dim: int, tensors: dict[str, Floats]) -> None:
        w = self._weights
        matrices = [w.take(f"{theirs}_W{letter}", dim, dim).T for letter in letters]
        tensors[f"{ours}.weight"] = np.ascontiguousarray(np.concatenate(matrices))
        tensors[f"{ours}.bias"] = np.concatenate([w.take(f"{theirs}_b{letter}", dim) for letter in letters])

    def _linear(self, weight: str, bias: str, ours: str, shape: tuple[int, int], tensors: dict[str, Floats]) -> None:
        tensors[f"{ours}.weight"] = np.ascontiguousarray(self._weights.take(weight, *shape).T)
        tensors[f"{ours}.bias"] = self._weights.take(bias, shape[1])

    def _norm(self, theirs: str, ours: str, dim: int, tensors: dict[str, Floats]) -> None:
        suffix = "_pre" if f"{theirs}_ln_scale_pre" in self._weights else ""
        tensors[f"{ours}.weight"] = self._weights.take(f"{theirs}_ln_scale{suffix}", dim)
        tensors[f"{ours}.bias"] = self._weights.take(f"{theirs}_ln_bias{suffix}", dim)
