"""MarianMT, M2M100, NLLB and mBART: the computation of `transformers`, in TransformerConfig's words.

A fact that they would heed and we cannot express is refused by name (models/marian, m2m_100, mbart).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.formats.weights import Tensor, Tensors, Weights
from sharpbeam.convert.readers.hugging_face.checkpoint import Checkpoint
from sharpbeam.convert.readers.hugging_face.generation import special_ids
from sharpbeam.convert.readers.hugging_face.marian_tokens import read_tokens
from sharpbeam.convert.readers.positions import add_learned, add_positions, with_sines_first
from sharpbeam.convert.readers.tokens import Tokens
from sharpbeam.convert.readers.transformer import add_tensors, in_layers

_ACTIVATIONS: dict[str, Literal["relu", "gelu", "gelu_sigmoid", "gelu_tanh", "swish"]] = {
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
_ENCODER_EMBEDDING, _DECODER_EMBEDDING = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
_SHARED, _HEAD = "model.shared.weight", "lm_head.weight"
_SKIPPED = 2  # rows of mBART's tables of positions that stand for no position


def read_marian(checkpoint: Checkpoint) -> tuple[dict[str, Any], dict[str, Tensor], Tokens]:
    """Config, tensors and tokens of these models, as `Reader`."""
    facts = checkpoint.facts
    for name, value in _FIXED[checkpoint.kind].items():
        facts.require(name, [value])
    sizes, tensors = _MarianReader(checkpoint.kind, facts, checkpoint.weights).read()
    if checkpoint.generation.get("decoder_start_token_id") is None:
        start = "a token's id: that of </s> for mBART-50, of the language to translate into for mBART-cc25"
        raise checkpoint.generation.refusal("decoder_start_token_id", start)
    special = special_ids(facts, checkpoint.generation)
    source, target = sizes["source_vocab_size"], sizes["target_vocab_size"]
    return sizes, tensors, read_tokens(checkpoint.folder, checkpoint.kind, source, target, special)


class _MarianReader:
    """The config and the weights of one model, and our tensors."""

    def __init__(self, kind: str, facts: Facts, weights: Weights) -> None:
        self.kind, self.facts, self.weights, self._tensors = kind, facts, weights, Tensors(weights)

    def read(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The facts of TransformerConfig except tokens and languages, and all tensors.

        Raises ModelError if a tensor is missing, of another shape, or left over.
        """
        facts, w, t = self.facts, self.weights, self._tensors
        sizes = self._embeddings() | {
            "norm": "post" if self.kind == "marian" else "pre",
            "encoder_final_norm": self.kind != "marian",
            "decoder_final_norm": self.kind != "marian",
            "embedding_norm": self.kind == "mbart",
            "activation": facts.choice("activation_function", _ACTIVATIONS),
            "scaled_embedding": facts.flag("scale_embedding"),
        }
        for side in ("encoder", "decoder"):
            sizes |= {
                f"{side}_layers": facts.integer(f"{side}_layers"),
                f"{side}_heads": facts.integer(f"{side}_attention_heads"),
                f"{side}_ffn_dim": facts.integer(f"{side}_ffn_dim"),
            }
        positions, interleaved = self._positions(sizes["hidden_dim"])
        sizes |= positions
        bias, target = "final_logits_bias", sizes["target_vocab_size"]
        t["output_bias"] = w.take(bias, 1, target)[0] if bias in w else np.zeros(target, np.float32)
        add_tensors(t, sizes, NAMES)
        w.ignore(_SHARED, _ENCODER_EMBEDDING, _DECODER_EMBEDDING, _HEAD)
        w.check_all_taken()
        return sizes, with_sines_first(t, sizes["hidden_dim"]) if interleaved else t

    def _embeddings(self) -> dict[str, Any]:
        """The facts of both embeddings and the output matrix, which are added to the tensors.

        A matrix of several names may have any of them in the file, which decides whether they are one matrix.
        """
        facts = self.facts
        shared, vocab = facts.flag("share_encoder_decoder_embeddings"), facts.integer("vocab_size")
        source = [_ENCODER_EMBEDDING, *((_SHARED, _DECODER_EMBEDDING, _HEAD) if shared else ())]
        target = [_DECODER_EMBEDDING, *((_SHARED, _ENCODER_EMBEDDING, _HEAD) if shared else ())]
        output = [_HEAD, *(target if facts.flag("tie_word_embeddings") else ())]
        rows = facts.get("decoder_vocab_size") and facts.integer("decoder_vocab_size")
        dim = facts.integer("d_model")
        shapes = (vocab, dim), (vocab if shared else rows or vocab, dim)
        return self._tensors.add_embeddings(source, target, output, shapes)

    def _positions(self, dim: int) -> tuple[dict[str, Any], bool]:
        """The facts of positions, as `add_positions`; without tables they are as the classes make them."""
        w = self.weights
        names = [_position_table(w, "encoder"), _position_table(w, "decoder")]
        if self.kind == "mbart":
            rows = self.facts.integer("max_position_embeddings") + _SKIPPED
            return add_learned(self._tensors, [w.take(name, rows, dim)[_SKIPPED:] for name in names]), False
        if self.kind == "marian" and any(name in w for name in names):
            return add_positions(self._tensors, [w.whole(name) for name in names if name in w], dim)
        if self.kind == "marian":
            return {"positions": "sinusoidal"}, False
        w.ignore(*names)  # M2M100 makes its table anew and ignores the file's
        return {"positions": "sinusoidal-t2t", "position_offset": self.facts.integer("pad_token_id") + 1}, False


def _position_table(weights: Weights, side: str) -> str:
    """The name of a table of positions: MarianMT and older M2M100 differ by a letter."""
    name = f"model.{side}.embed_positions.weight"
    return name if name in weights else name + "s"
