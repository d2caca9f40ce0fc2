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


def read_transformer(facts: Facts, weights: Weights) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The facts of TransformerConfig but for tokens, and the tensors."""
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
        """The facts of TransformerConfig but for tokens, and the tensors."""
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
            for layer in range(sizes[f"{side}_layers"]):
                self._layer(side, layer, sizes)
            if top:
                self._norm(f"{side}_top", f"{side}_norm")
            if sizes["embedding_norm"]:
                self._norm(f"{side}_emb", f"{'source' if side == 'encoder' else 'target'}_embedding_norm")
        return sizes, self._tensors

    def _layer(self, side: str, layer: int, sizes: dict[str, Any]) -> None:
        theirs, ours = f"{side}_l{layer + 1}", f"{side}.{layer}"
        if side == "decoder" and sizes["decoder_kind"] == "ssru":
            self._ssru(f"{theirs}_rnn", f"{ours}.ssru", sizes)
        else:
            self._square(f"{theirs}_self", f"{ours}.attention.qkv", "qkv")
            self._square(f"{theirs}_self", f"{ours}.attention.out", "o")
            self._norm(f"{theirs}_self_Wo", f"{ours}.attention.norm")
        if side == "decoder":
            for name, letters in (("query", "q"), ("key_value", "kv"), ("out", "o")):
                self._square(f"{theirs}_context", f"{ours}.cross.{name}", letters)
            self._norm(f"{theirs}_context_Wo", f"{ours}.cross.norm")
        _, width = self._weights.matrix_shape(f"{theirs}_ffn_W1")
        if sizes.setdefault(f"{side}_ffn_dim", width) != width:
            raise ModelError(f"{self._facts.path}: the layers of its {side} have different widths.")
        for name, number, shape in (("up", 1, (width, self._dim)), ("down", 2, (self._dim, width))):
            self._tensors.add_matrix(f"{ours}.ffn.{name}.weight", f"{theirs}_ffn_W{number}", *shape)
            self._tensors.add_vector(f"{ours}.ffn.{name}.bias", f"{theirs}_ffn_b{number}", shape[0])
        self._norm(f"{theirs}_ffn_ffn", f"{ours}.ffn.norm")

    def _ssru(self, theirs: str, ours: str, sizes: dict[str, Any]) -> None:
        dim, tensors = self._dim, self._tensors
        tensors.add_matrix(f"{ours}.cell.weight", [f"{theirs}_W", f"{theirs}_Wf"], dim, dim)
        forget = self._weights.take(f"{theirs}_bf", dim)
        tensors[f"{ours}.cell.bias"] = np.concatenate([np.zeros(dim, np.float32), forget])
        if sizes["ssru_projection"]:
            self._square(theirs, f"{ours}.out", "o")
        self._norm(theirs if sizes["norm"] == "pre" else f"{theirs}_ffn", f"{ours}.norm")

    def _square(self, theirs: str, ours: str, letters: str) -> None:
        """Matrices [D, D] of one input and their biases, each named by a letter, as one linear layer."""
        self._tensors.add_matrix(f"{ours}.weight", [f"{theirs}_W{letter}" for letter in letters], self._dim, self._dim)
        self._tensors.add_vector(f"{ours}.bias", [f"{theirs}_b{letter}" for letter in letters], self._dim)

    def _norm(self, theirs: str, ours: str) -> None:
        suffix = "_pre" if f"{theirs}_ln_scale_pre" in self._weights else ""
        self._tensors.add_vector(f"{ours}.weight", f"{theirs}_ln_scale{suffix}", self._dim)
        self._tensors.add_vector(f"{ours}.bias", f"{theirs}_ln_bias{suffix}", self._dim)
