"""Marian's transformers and students with an SSRU.

Names and meanings are those of Marian's src/models/transformer.h;
positions are sinusoids of tensor2tensor, norms have an epsilon of 1e-6.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.formats.weights import Tensor, Weights
from sharpbeam.convert.readers.marian_vocabulary import read_embeddings
from sharpbeam.convert.readers.transformer import add_tensors, in_layers
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
_NAMES = {
    "encoder_norm": "encoder_top_ln_{scale}",
    "decoder_norm": "decoder_top_ln_{scale}",
    "source_embedding_norm": "encoder_emb_ln_{scale}",
    "target_embedding_norm": "decoder_emb_ln_{scale}",
    **in_layers(
        "{side}_l{number}_",
        {
            "attention.norm": "self_Wo_ln_{scale}",
            "attention.qkv": "self_{W}<q|k|v>",
            "attention.out": "self_{W}o",
            "ssru.norm": "rnn_ffn_ln_{scale}",
            "ssru.cell": "rnn_<W|Wf>",  # whose bias is not all there
            "ssru.out": "rnn_{W}o",
            "cross.norm": "context_Wo_ln_{scale}",
            "cross.query": "context_{W}q",
            "cross.key_value": "context_{W}<k|v>",
            "cross.out": "context_{W}o",
            "ffn.norm": "ffn_ffn_ln_{scale}",
            "ffn.up": "ffn_{W}1",
            "ffn.down": "ffn_{W}2",
        },
    ),
}
_PRE_NORM = in_layers("{side}_l{number}_", {"ssru.norm": "rnn_ln_{scale}"})


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
        self._embeddings, self._tensors = read_embeddings(weights, "decoder_ff_logit_out")

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
        sizes = self._embeddings | {
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
            sizes[f"{side}_ffn_dim"] = self._weights.matrix_shape(f"{side}_l1_ffn_W1")[0]
        for layer in range(sizes["decoder_layers"] if sizes["decoder_kind"] == "ssru" else 0):
            forget = self._weights.take(f"decoder_l{layer + 1}_rnn_bf", sizes["hidden_dim"])
            self._tensors[f"decoder.{layer}.ssru.cell.bias"] = np.concatenate([np.zeros_like(forget), forget])
        add_tensors(self._tensors, sizes, _NAMES | _PRE_NORM if before else _NAMES)
        return sizes, self._tensors
