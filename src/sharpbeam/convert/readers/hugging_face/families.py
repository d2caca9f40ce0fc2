"""MarianMT, M2M100, NLLB, mBART, T5 and its relatives: the computation of `transformers`, in TransformerConfig's words.

A fact that they would heed and we cannot express is refused by name (models/marian, m2m_100, mbart, t5, mt5, umt5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.formats.weights import Tensor, Tensors, values
from sharpbeam.convert.readers.transformer import add_learned, add_positions, add_tensors, in_layers, with_sines_first
from sharpbeam.errors import ModelError

_ACTIVATIONS: dict[str, str] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "quick_gelu": "gelu_sigmoid",
    "swish": "swish",
    "silu": "swish",
}
_COMMON = {
    "max_position_embeddings": 1024,
    "encoder_layers": 12,
    "encoder_ffn_dim": 4096,
    "encoder_attention_heads": 16,
    "decoder_layers": 12,
    "decoder_ffn_dim": 4096,
    "decoder_attention_heads": 16,
    "d_model": 1024,
    "tie_word_embeddings": True,
    "share_encoder_decoder_embeddings": True,
    "activation_function": "gelu",
    "scale_embedding": False,
    "pad_token_id": 1,
    "eos_token_id": 2,
}
_M2M = _COMMON | {
    "vocab_size": 128112,
    "activation_function": "relu",
    "scale_embedding": True,
    "decoder_start_token_id": 2,
}
_NORMS = ("normalize_before", "normalize_embedding", "add_final_layer_norm")
_MARIAN = _COMMON | {"vocab_size": 58101, "decoder_start_token_id": 58100, "pad_token_id": 58100, "eos_token_id": 0}
_MBART = _COMMON | {"vocab_size": 50265, "forced_eos_token_id": 2}
# Facts that older versions wrote into config.json, and that the classes no longer read.
_SINUSOIDAL = dict.fromkeys((*_NORMS, "add_bias_logits"), False) | {"static_position_embeddings": True}
_FIXED: dict[str, dict[str, bool]] = {
    "marian": _SINUSOIDAL,
    "m2m_100": _SINUSOIDAL,
    "mbart": dict.fromkeys(_NORMS, True) | {"static_position_embeddings": False, "add_bias_logits": False},
}
NAMES: Mapping[str, str] = {
    "encoder_norm": "model.encoder.layer_norm.{end}",
    "decoder_norm": "model.decoder.layer_norm.{end}",
    "source_embedding_norm": "model.encoder.layernorm_embedding.{end}",
    "target_embedding_norm": "model.decoder.layernorm_embedding.{end}",
    **in_layers(
        "model.{side}.layers.{layer}.",
        {
            "attention.norm": "self_attn_layer_norm",
            "attention.qkv": "self_attn.<q|k|v>_proj",
            "attention.out": "self_attn.out_proj",
            "cross.norm": "encoder_attn_layer_norm",
            "cross.query": "encoder_attn.q_proj",
            "cross.key_value": "encoder_attn.<k|v>_proj",
            "cross.out": "encoder_attn.out_proj",
            "ffn.norm": "final_layer_norm",
            "ffn.up": "fc1",
            "ffn.down": "fc2",
        },
        ".{end}",
    ),
}
_SIDES = ("encoder", "decoder")
_ENCODER_EMBEDDING, _DECODER_EMBEDDING = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
_SHARED, _HEAD = "model.shared.weight", "lm_head.weight"
_SKIPPED = 2  # rows of mBART's tables of positions that stand for no position


def read_marian(facts: Facts, tensors: Tensors) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The facts of TransformerConfig except tokens and languages, and all tensors, as `Reader`.

    Raises ModelError if a tensor is missing, of another shape, or left over.
    """
    kind = facts.text("model_type")
    for name, value in _FIXED[kind].items():
        facts.require(name, [value])
    sizes = _embeddings(facts, tensors) | {
        "norm": "post" if kind == "marian" else "pre",
        "encoder_final_norm": kind != "marian",
        "decoder_final_norm": kind != "marian",
        "embedding_norm": kind == "mbart",
        "activation": facts.choice("activation_function", _ACTIVATIONS),
        "scaled_embedding": facts.flag("scale_embedding"),
    }
    for side in _SIDES:
        theirs = {"layers": "layers", "heads": "attention_heads", "ffn_dim": "ffn_dim"}
        sizes |= {f"{side}_{name}": facts.integer(f"{side}_{their}") for name, their in theirs.items()}
    positions, interleaved = _positions(kind, facts, tensors, sizes["hidden_dim"])
    sizes |= positions
    add_tensors(tensors, sizes, NAMES)
    tensors.weights.ignore(_SHARED, _ENCODER_EMBEDDING, _DECODER_EMBEDDING, _HEAD)
    tensors.weights.check_all_taken()
    return sizes, with_sines_first(tensors, sizes["hidden_dim"]) if interleaved else tensors


def _embeddings(facts: Facts, tensors: Tensors) -> dict[str, Any]:
    """The facts of both embeddings and the output layer, which are added to the tensors.

    A matrix of several names may have any of them in the file, which decides whether they are one matrix.
    """
    shared, vocab = facts.flag("share_encoder_decoder_embeddings"), facts.integer("vocab_size")
    source = [_ENCODER_EMBEDDING, *((_SHARED, _DECODER_EMBEDDING, _HEAD) if shared else ())]
    target = [_DECODER_EMBEDDING, *((_SHARED, _ENCODER_EMBEDDING, _HEAD) if shared else ())]
    output = [_HEAD, *(target if facts.flag("tie_word_embeddings") else ())]
    rows = facts.get("decoder_vocab_size") and facts.integer("decoder_vocab_size")
    dim = facts.integer("d_model")
    shapes = (vocab, dim), (vocab if shared else rows or vocab, dim)
    return tensors.add_embeddings(source, target, output, "final_logits_bias", shapes)


def _positions(kind: str, facts: Facts, tensors: Tensors, dim: int) -> tuple[dict[str, Any], bool]:
    """The facts of positions, as `add_positions`; without tables they are as the classes make them."""
    w, names = tensors.weights, [f"model.{side}.embed_positions.weight" for side in _SIDES]
    names = [name if name in w else name + "s" for name in names]  # M2M100 of older versions
    if kind == "mbart":
        rows = facts.integer("max_position_embeddings") + _SKIPPED
        return add_learned(tensors, [w.take(name, rows, dim)[_SKIPPED:] for name in names]), False
    if kind == "m2m_100":
        w.ignore(*names)  # it makes its table anew and ignores the file's
        return {"positions": "sinusoidal-t2t", "position_offset": facts.integer("pad_token_id") + 1}, False
    if tables := [w.take(name) for name in names if name in w]:
        return add_positions(tensors, tables, dim)
    return {"positions": "sinusoidal"}, False


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
# feed_forward_proj -> activation, and whether another product gates it; "gated-gelu" is by tanh
_FEED_FORWARD: dict[str, tuple[str, bool]] = {
    **{name: (activation, False) for name, activation in _ACTIVATIONS.items()},
    **{f"gated-{name}": (activation, True) for name, activation in _ACTIVATIONS.items()},
    "gated-gelu": ("gelu_tanh", True),
}
_T5_EMBEDDINGS = ("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", _HEAD)
_RELATIVE = "relative_attention_bias.weight"
_T5_NAMES = {
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
    facts.require("dense_act_fn", [name for name, meaning in _ACTIVATIONS.items() if meaning == activation])
    facts.require("is_gated_act", [gated])
    shape = facts.integer("vocab_size"), facts.integer("d_model")
    sizes = t.add_embeddings(_T5_EMBEDDINGS, _T5_EMBEDDINGS, (_HEAD, *_T5_EMBEDDINGS), shapes=(shape, shape)) | {
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
    for name in _T5_EMBEDDINGS[:-1]:
        if name in w and not np.array_equal(w.take(name), values(t["target_embedding"])):
            raise ModelError(f"{w.path}: {name} is another matrix; T5 has one embedding for both sides.")
    up = "<wi_0|wi_1>" if gated else "wi"
    add_tensors(t, sizes, {ours: theirs.replace("{up}", up) for ours, theirs in _T5_NAMES.items()})
    w.ignore(f"decoder.block.0.layer.1.EncDecAttention.{_RELATIVE}")  # of old files; no version reads it
    w.check_all_taken()
    # T5 v1.0 divides hidden vectors by sqrt(d_model) before the output matrix, v1.1 does not: config.json tells them by
    # tie_word_embeddings. mT5 never does. We scale the last norm.
    scaled = kind != "mt5" and (facts.get("tie_word_embeddings") is None or facts.flag("tie_word_embeddings"))
    if scaled if facts.get("scale_decoder_outputs") is None else facts.flag("scale_decoder_outputs"):
        t["decoder_norm.weight"] = values(t["decoder_norm.weight"]) * np.float32(shape[1] ** -0.5)
    return sizes, t


# From the facts of config.json and the weights of one class of `transformers`: the facts of TransformerConfig except
# those of tokens, and all tensors by our names. Raises ModelError by name for a feature that Sharpbeam lacks.
Reader = Callable[[Facts, Tensors], tuple[dict[str, Any], dict[str, Tensor]]]
# By model_type: the defaults of the class, since older versions leave them out of config.json, and the reader.
FAMILIES: Mapping[str, tuple[Mapping[str, Any], Reader]] = {
    "marian": (_MARIAN, read_marian),
    "m2m_100": (_M2M, read_marian),
    "mbart": (_MBART, read_marian),
    "t5": (_T5, read_t5),
    "mt5": (_MT5, read_t5),
    "umt5": (_MT5, read_t5),
}
