"""MarianMT, M2M100, NLLB and mBART: the computation of `transformers`, in TransformerConfig's words.

A fact that they would heed and we cannot express is refused by name (models/marian, m2m_100, mbart).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.formats.weights import Tensor, Tensors
from sharpbeam.convert.readers.positions import add_learned, add_positions, with_sines_first
from sharpbeam.convert.readers.transformer import add_tensors, in_layers

Activation = Literal["relu", "gelu", "gelu_sigmoid", "gelu_tanh", "swish"]
ACTIVATIONS: dict[str, Activation] = {
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
DEFAULTS: dict[str, dict[str, Any]] = {
    "marian": _COMMON
    | {"vocab_size": 58101, "decoder_start_token_id": 58100, "pad_token_id": 58100, "eos_token_id": 0},
    "m2m_100": _M2M,
    "mbart": _COMMON | {"vocab_size": 50265, "forced_eos_token_id": 2},
}
# Facts that older versions wrote into config.json, and that the classes no longer read.
_FIXED: dict[str, dict[str, bool]] = {
    "marian": dict.fromkeys((*_NORMS, "add_bias_logits"), False) | {"static_position_embeddings": True},
    "m2m_100": dict.fromkeys((*_NORMS, "add_bias_logits"), False) | {"static_position_embeddings": True},
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
        "activation": facts.choice("activation_function", ACTIVATIONS),
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
