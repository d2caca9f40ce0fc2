"""T5, flan-T5, mT5, umT5 and MADLAD-400: the computation of `transformers`, in TransformerConfig's words.

A fact that they would heed and we cannot express is refused by name (models/t5, mt5, umt5).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.formats.weights import Tensor, Tensors, values
from sharpbeam.convert.readers.hugging_face.marian import ACTIVATIONS, Activation
from sharpbeam.convert.readers.transformer import add_tensors, in_layers
from sharpbeam.errors import ModelError

_T5 = {
    "vocab_size": 32128,
    "d_model": 512,
    "d_kv": 64,
    "d_ff": 2048,
    "num_layers": 6,
    "num_heads": 8,
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
    "layer_norm_epsilon": 1e-6,
    "feed_forward_proj": "relu",
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
}
_MT5 = _T5 | {"vocab_size": 250112, "d_ff": 1024, "num_layers": 8, "num_heads": 6, "feed_forward_proj": "gated-gelu"}
DEFAULTS: dict[str, dict[str, Any]] = {"t5": _T5, "mt5": _MT5, "umt5": _MT5}
# feed_forward_proj -> activation, and whether another product gates it; "gated-gelu" is by tanh
_FEED_FORWARD: dict[str, tuple[Activation, bool]] = {
    **{name: (activation, False) for name, activation in ACTIVATIONS.items()},
    **{f"gated-{name}": (activation, True) for name, activation in ACTIVATIONS.items()},
    "gated-gelu": ("gelu_tanh", True),
}
_EMBEDDINGS = ("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
_HEAD = _EMBEDDINGS[-1]
_RELATIVE = "relative_attention_bias.weight"
_NAMES = {
    "encoder_norm": "encoder.final_layer_norm.weight",
    "decoder_norm": "decoder.final_layer_norm.weight",
    "encoder_position_bias": f"encoder.block.0.layer.0.SelfAttention.{_RELATIVE}",
    "decoder_position_bias": f"decoder.block.0.layer.0.SelfAttention.{_RELATIVE}",
    **in_layers(
        "{side}.block.{layer}.layer.",
        {
            "attention.norm": "0.layer_norm.weight",
            "attention.qkv": "0.SelfAttention.<q|k|v>.weight",
            "attention.out": "0.SelfAttention.o.weight",
            "attention.position_bias": f"0.SelfAttention.{_RELATIVE}",
            "cross.norm": "1.layer_norm.weight",
            "cross.query": "1.EncDecAttention.q.weight",
            "cross.key_value": "1.EncDecAttention.<k|v>.weight",
            "cross.out": "1.EncDecAttention.o.weight",
            "encoder.ffn.norm": "1.layer_norm.weight",
            "encoder.ffn.up": "1.DenseReluDense.{up}.weight",
            "encoder.ffn.down": "1.DenseReluDense.wo.weight",
            "decoder.ffn.norm": "2.layer_norm.weight",
            "decoder.ffn.up": "2.DenseReluDense.{up}.weight",
            "decoder.ffn.down": "2.DenseReluDense.wo.weight",
        },
    ),
}


def read_t5(facts: Facts, tensors: Tensors) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The facts of TransformerConfig except tokens and languages, and all tensors, as `Reader`.

    Raises ModelError if a tensor is missing, of another shape, or left over.
    """
    kind, w, t = facts.text("model_type"), tensors.weights, tensors
    facts.require("tie_encoder_decoder", [False])
    activation, gated = facts.choice("feed_forward_proj", _FEED_FORWARD)
    facts.require("dense_act_fn", [name for name, meaning in ACTIVATIONS.items() if meaning == activation])
    facts.require("is_gated_act", [gated])
    shape = facts.integer("vocab_size"), facts.integer("d_model")
    sizes = t.add_embeddings(_EMBEDDINGS, _EMBEDDINGS, (_HEAD, *_EMBEDDINGS), shapes=(shape, shape)) | {
        "head_dim": facts.integer("d_kv"),
        "scaled_attention": False,
        "norm_kind": "rms",
        "norm_epsilon": facts.number("layer_norm_epsilon"),
        "activation": activation,
        "gated_ffn": gated,
        "positions": "relative" if kind == "umt5" else "relative-shared",
        "relative_buckets": facts.integer("relative_attention_num_buckets"),
        "relative_distance": facts.integer("relative_attention_max_distance"),
        "attention_bias": False,
        "ffn_bias": False,
        "scaled_embedding": False,
    }
    layers = "num_layers" if facts.get("num_decoder_layers") is None else "num_decoder_layers"
    for side, depth in (("encoder", "num_layers"), ("decoder", layers)):
        sizes[f"{side}_layers"] = facts.integer(depth)
        sizes[f"{side}_heads"], sizes[f"{side}_ffn_dim"] = facts.integer("num_heads"), facts.integer("d_ff")
    for name in _EMBEDDINGS[:-1]:
        if name in w and not np.array_equal(w.take(name), values(t["target_embedding"])):
            raise ModelError(f"{w.path}: {name} is another matrix; T5 has one embedding for both sides.")
    up = "<wi_0|wi_1>" if gated else "wi"
    add_tensors(t, sizes, {ours: theirs.replace("{up}", up) for ours, theirs in _NAMES.items()})
    w.ignore(f"decoder.block.0.layer.1.EncDecAttention.{_RELATIVE}")  # of old files; no version reads it
    w.check_all_taken()
    # T5 v1.0 divides hidden vectors by sqrt(d_model) before the output matrix, v1.1 does not: config.json tells them by
    # tie_word_embeddings. mT5 never does. We scale the last norm.
    scaled = kind != "mt5" and (facts.get("tie_word_embeddings") is None or facts.flag("tie_word_embeddings"))
    if scaled if facts.get("scale_decoder_outputs") is None else facts.flag("scale_decoder_outputs"):
        t["decoder_norm.weight"] = values(t["decoder_norm.weight"]) * np.float32(shape[1] ** -0.5)
    return sizes, t
