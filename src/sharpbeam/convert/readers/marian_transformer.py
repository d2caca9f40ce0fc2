"""Marian's transformers and students with an SSRU.

Names and meanings are those of Marian's src/models/transformer.h;
positions are sinusoids of tensor2tensor, norms have an epsilon of 1e-6.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.formats.weights import Tensors
from sharpbeam.convert.readers.transformer import add_tensors, in_layers
from sharpbeam.errors import ModelError

_ACTIVATIONS = {"relu": "relu", "swish": "swish", "gelu": "gelu"}
_EXACT_GELU = (1, 12, 3)  # the version from which on "gelu" is x Phi(x); before, it is x sigmoid(1.702 x)
_ONLY: dict[str, list[Any]] = {
    "transformer-ffn-depth": [2],
    "transformer-decoder-ffn-depth": [0, 2],
    "transformer-attention-mask": ["default"],
    "transformer-no-projection": [False],
    "transformer-train-position-embeddings": [False],
    "transformer-disable-position-embeddings": [False],
    "transformer-pool": [False],
    "ulr": [False],
}
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


def read_transformer(facts: Facts, tensors: Tensors, embeddings: dict[str, Any]) -> dict[str, Any]:
    """Fill the `tensors`, which have the embeddings; returns the facts of TransformerConfig except tokens."""
    weights = tensors.weights
    for name, allowed in _ONLY.items():
        facts.require(name, allowed)
    if "Wpos" in weights:
        raise ModelError(f"{facts.path}: it has trained positions (Wpos), which are not read yet.")
    names = ("preprocess", "postprocess", "postprocess-top")
    before, after, top = (facts.text(f"transformer-{name}").replace("d", "") for name in names)
    if (before, after, top) not in (("", "an", ""), ("n", "a", "n")):
        raise facts.refusal("transformer-postprocess", "'dan', or 'da' with preprocess 'n' and postprocess-top 'n'")
    autoreg = facts.text("transformer-decoder-autoreg") or "self-attention"
    if autoreg not in ("self-attention", "rnn") or (autoreg == "rnn" and facts.text("dec-cell") != "ssru"):
        raise facts.refusal("transformer-decoder-autoreg", "self-attention, or rnn with dec-cell ssru")
    sizes = embeddings | {
        "encoder_layers": facts.integer("enc-depth"),
        "decoder_layers": facts.integer("dec-depth"),
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
    for side in ("encoder", "decoder"):
        sizes[f"{side}_heads"] = facts.integer("transformer-heads")
        sizes[f"{side}_ffn_dim"] = weights.matrix_shape(f"{side}_l1_ffn_W1")[0]
    for layer in range(sizes["decoder_layers"] if sizes["decoder_kind"] == "ssru" else 0):
        forget = weights.take(f"decoder_l{layer + 1}_rnn_bf", sizes["hidden_dim"])
        tensors[f"decoder.{layer}.ssru.cell.bias"] = np.concatenate([np.zeros_like(forget), forget])
    add_tensors(tensors, sizes, _NAMES | _PRE_NORM if before else _NAMES)
    return sizes


def _activation(facts: Facts) -> str:
    """The activation as it was in the version of Marian that wrote the model."""
    name = facts.choice("transformer-ffn-activation", _ACTIVATIONS)
    version = re.match(r"v(\d+)\.(\d+)\.(\d+)", facts.text("version"))
    is_exact = version is not None and tuple(map(int, version.groups())) >= _EXACT_GELU
    return name if name != "gelu" or is_exact else "gelu_sigmoid"
