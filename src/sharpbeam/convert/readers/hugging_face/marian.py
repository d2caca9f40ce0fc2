"""MarianMT, M2M100, NLLB, NLLB-MoE, BART and mBART: what `transformers` computes, in TransformerConfig's words.

A fact that they would heed and we cannot say is refused by name (models/marian, m2m_100, bart, mbart).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.formats.weights import Tensor, Tensors, Weights
from sharpbeam.convert.readers.hugging_face import nllb_moe
from sharpbeam.convert.readers.hugging_face.bart_words import read_bart_words
from sharpbeam.convert.readers.hugging_face.checkpoint import Checkpoint
from sharpbeam.convert.readers.hugging_face.generation import special_ids
from sharpbeam.convert.readers.hugging_face.marian_words import read_words
from sharpbeam.convert.readers.hugging_face.words import Words
from sharpbeam.convert.readers.positions import recognise
from sharpbeam.convert.readers.transformer import add_layers
from sharpbeam.errors import ModelError

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
_BART = _COMMON | {"vocab_size": 50265, "forced_eos_token_id": 2}
_M2M = _COMMON | {
    "vocab_size": 128112,
    "activation_function": "relu",
    "scale_embedding": True,
    "decoder_start_token_id": 2,
}
_NORMS = ("normalize_before", "normalize_embedding", "add_final_layer_norm")
_LEARNED = {"static_position_embeddings": False, "add_bias_logits": False}
DEFAULTS: dict[str, dict[str, Any]] = {
    "marian": _COMMON
    | {"vocab_size": 58101, "decoder_start_token_id": 58100, "pad_token_id": 58100, "eos_token_id": 0},
    "m2m_100": _M2M,
    "nllb-moe": _M2M | nllb_moe.DEFAULTS,
    "bart": _BART | {"decoder_start_token_id": 2},
    "mbart": _BART,
}
# Facts that older versions wrote into config.json, and the classes compute whatever stands there.
_FIXED: dict[str, dict[str, bool]] = {
    "marian": dict.fromkeys((*_NORMS, "add_bias_logits"), False) | {"static_position_embeddings": True},
    "m2m_100": dict.fromkeys((*_NORMS, "add_bias_logits"), False) | {"static_position_embeddings": True},
    "nllb-moe": {},
    "bart": {"normalize_before": False, "normalize_embedding": True, "add_final_layer_norm": False} | _LEARNED,
    "mbart": dict.fromkeys(_NORMS, True) | _LEARNED,
}
_OUTSIDE = {
    "encoder_norm": "encoder.layer_norm",
    "decoder_norm": "decoder.layer_norm",
    "source_embedding_norm": "encoder.layernorm_embedding",
    "target_embedding_norm": "decoder.layernorm_embedding",
}
_PARTS: dict[str, tuple[str, ...]] = {  # of a layer, by our names
    "attention.norm": ("self_attn_layer_norm",),
    "attention.qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attention.out": ("self_attn.out_proj",),
    "cross.norm": ("encoder_attn_layer_norm",),
    "cross.query": ("encoder_attn.q_proj",),
    "cross.key_value": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "cross.out": ("encoder_attn.out_proj",),
    "ffn.norm": ("final_layer_norm",),
    "ffn.up": ("fc1",),
    "ffn.down": ("fc2",),
}
_MOE_PARTS: dict[str, tuple[str, ...]] = {
    **{part: tuple(n.replace("encoder_attn", "cross_attention") for n in names) for part, names in _PARTS.items()},
    "ffn.norm": ("ff_layer_norm",),
    "ffn.up": ("ffn.fc1",),
    "ffn.down": ("ffn.fc2",),
}
_SKIPPED = 2  # rows of BART's tables of positions that stand for no position


def read_marian(checkpoint: Checkpoint) -> tuple[dict[str, Any], dict[str, Tensor], Words]:
    """Config, tensors and words of these models, as `Family.read`."""
    facts = checkpoint.facts
    for name, value in _FIXED[checkpoint.kind].items():
        facts.require(name, [value])
    model = _MarianReader(checkpoint.kind, facts, checkpoint.weights)
    sizes = model.sizes()
    tensors = model.all_tensors(sizes)  # first, so that the sizes are sure
    if checkpoint.generation.get("decoder_start_token_id") is None:
        start = "a token's id: that of </s> for mBART-50, of the language to translate into for mBART-cc25"
        raise checkpoint.generation.refusal("decoder_start_token_id", start)
    special = special_ids(facts, checkpoint.generation)
    vocabularies = sizes["source_vocab_size"], sizes["target_vocab_size"]
    read = read_bart_words if checkpoint.kind == "bart" else read_words
    return sizes, tensors, read(checkpoint.folder, checkpoint.kind, *vocabularies, special)


def names_of(name: str, kind: str) -> list[str]:
    """The tensors that one of ours, other than embeddings, positions and output, is made of in a model of `kind`."""
    stem, _, part = name.rpartition(".")
    if stem in _OUTSIDE:
        return [f"model.{_OUTSIDE[stem]}.{part}"]
    side, layer, place = stem.split(".", 2)
    parts = (_MOE_PARTS if kind == "nllb-moe" else _PARTS)[place]
    return [f"model.{side}.layers.{layer}.{one}.{part}" for one in parts]


class _MarianReader:
    """The config and the weights of one model, and our tensors."""

    def __init__(self, kind: str, facts: Facts, weights: Weights) -> None:
        self.kind, self.facts, self.weights, self._tensors = kind, facts, weights, Tensors(weights)

    def sizes(self) -> dict[str, Any]:
        """The facts of TransformerConfig except tokens and languages."""
        facts, vocab = self.facts, self.facts.integer("vocab_size")
        shared = facts.flag("share_encoder_decoder_embeddings") and not self._split_embeddings()
        decoder_vocab = facts.get("decoder_vocab_size") and facts.integer("decoder_vocab_size")
        sizes: dict[str, Any] = {
            "source_vocab_size": vocab,
            "target_vocab_size": vocab if shared else decoder_vocab or vocab,
            "hidden_dim": facts.integer("d_model"),
            "norm": "post" if self.kind in ("marian", "bart") else "pre",
            "encoder_final_norm": self.kind not in ("marian", "bart"),
            "decoder_final_norm": self.kind not in ("marian", "bart"),
            "embedding_norm": self.kind in ("bart", "mbart"),
            "activation": facts.choice("activation_function", _ACTIVATIONS),
            "scaled_embedding": facts.flag("scale_embedding"),
            "shared_embedding": shared,
            "tied_output": facts.flag("tie_word_embeddings") and not self._split_output(shared),
        }
        for side in ("encoder", "decoder"):
            sizes |= {
                f"{side}_layers": facts.integer(f"{side}_layers"),
                f"{side}_heads": facts.integer(f"{side}_attention_heads"),
                f"{side}_ffn_dim": facts.integer(f"{side}_ffn_dim"),
            }
        if self.kind == "nllb-moe":
            sizes |= nllb_moe.expert_facts(facts)
        return sizes | self._positions(sizes["hidden_dim"])

    def all_tensors(self, sizes: Mapping[str, Any]) -> dict[str, Tensor]:
        """All tensors in our names; raises ModelError if one is missing, of another shape, or left over."""
        w, t, dim = self.weights, self._tensors, sizes["hidden_dim"]
        source, target = sizes["source_vocab_size"], sizes["target_vocab_size"]
        if sizes["shared_embedding"]:
            t["target_embedding"] = w.take(next((name for name in _SHARED if name in w), _SHARED[0]), target, dim)
        else:
            t["source_embedding"] = w.take(_ENCODER_EMBEDDING, source, dim)
            t["target_embedding"] = w.take(_DECODER_EMBEDDING, target, dim)
        w.ignore(*_SHARED)
        if not sizes["tied_output"]:
            t["output_weight"] = w.take("lm_head.weight", target, dim)
        bias = "final_logits_bias"
        t["output_bias"] = w.take(bias, 1, target)[0] if bias in w else np.zeros(target, np.float32)
        for ours, side in (("source", "encoder"), ("target", "decoder")):
            if sizes["positions"] == "learned":
                table, skipped = _position_table(w, side), _SKIPPED * sizes["embedding_norm"]
                t[f"{ours}_positions"] = w.take(table, sizes["max_positions"] + skipped, dim)[skipped:]
            mixture = sizes.get("experts", 0), sizes[f"{side}_ffn_dim"], dim
            step = sizes.get(f"{side}_expert_step", 0)
            for layer in range(step - 1, sizes[f"{side}_layers"], step) if step else ():
                inner = f"model.{side}.layers.{layer}.ffn"
                nllb_moe.add_mixture(t, w, self.facts, f"{side}.{layer}.ffn", inner, mixture)
        add_layers(t, sizes, lambda name: names_of(name, self.kind))
        w.ignore(*(_position_table(w, side) for side in ("encoder", "decoder")), "lm_head.weight")
        w.check_all_taken()
        return t

    def _positions(self, dim: int) -> dict[str, Any]:
        """The tables of positions, where they are there; else as the classes make them."""
        w = self.weights
        if self.kind in ("bart", "mbart"):
            return {"positions": "learned", "max_positions": self.facts.integer("max_position_embeddings")}
        names = [name for name in (_position_table(w, "encoder"), _position_table(w, "decoder")) if name in w]
        offset = 0 if self.kind == "marian" else self.facts.integer("pad_token_id") + 1
        made = {"positions": "sinusoidal" if self.kind == "marian" else "sinusoidal-t2t", "position_offset": offset}
        if not names or self.kind in ("m2m_100", "nllb-moe"):  # M2M100 makes its table anew whatever the file says
            return made
        tables = [w.whole(name) for name in names]
        kinds = {recognise(table) if table.ndim == 2 and table.shape[1] == dim else None for table in tables}
        if None not in kinds and len(kinds) == 1:
            ((kind, first),) = filter(None, kinds)
            return {"positions": kind, "position_offset": first}
        if len(tables) < 2 or tables[0].shape != tables[1].shape:
            raise ModelError(f"{self.facts.path}: the tables of positions of encoder and decoder have different sizes.")
        return {"positions": "learned", "max_positions": len(tables[0])}

    def _split_embeddings(self) -> bool:
        """Whether encoder and decoder have embeddings of their own."""
        names = [name for name in (_ENCODER_EMBEDDING, _DECODER_EMBEDDING) if name in self.weights]
        return len(names) == 2 and not self._same(*names)

    def _split_output(self, shared: bool) -> bool:
        """Whether the output matrix is another one than the target embedding."""
        names = _SHARED if shared else (_DECODER_EMBEDDING,)
        embedding = next((name for name in names if name in self.weights), None)
        head = "lm_head.weight"
        return head in self.weights and embedding is not None and not self._same(head, embedding)

    def _same(self, one: str, other: str) -> bool:
        return np.array_equal(self.weights.whole(one), self.weights.whole(other))


_ENCODER_EMBEDDING, _DECODER_EMBEDDING = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
_SHARED = ("model.shared.weight", _DECODER_EMBEDDING, _ENCODER_EMBEDDING, "lm_head.weight")


def _position_table(weights: Weights, side: str) -> str:
    """The name of a table of positions: MarianMT and older M2M100 differ by a letter."""
    name = f"model.{side}.embed_positions.weight"
    return name if name in weights else name + "s"
