"""Our transformers in the words of Hugging Face's T5, or of its umT5, where each layer has its own position bias."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.types import Floats

_ACTIVATIONS = {"relu": "relu", "gelu_tanh": "gelu_new", "swish": "silu"}
_GATED = {"relu": "gated-relu", "gelu_tanh": "gated-gelu", "swish": "gated-silu"}
# The facts that T5 can express; anything else is refused.
T5_FACTS: dict[str, tuple[Any, ...]] = {
    "norm": ("pre",),
    "encoder_final_norm": (True,),
    "decoder_final_norm": (True,),
    "embedding_norm": (False,),
    "norm_kind": ("rms",),
    "activation": tuple(_ACTIVATIONS),
    "positions": ("relative", "relative-shared"),
    "decoder_kind": ("attention",),
    "experts": (0,),
    "scaled_attention": (False,),
    "attention_bias": (False,),
    "ffn_bias": (False,),
    "scaled_embedding": (False,),
    "shared_embedding": (True,),
    "source_tag": ("none", "target"),
    "target_tag": (False,),
    "source_begin": ((),),
    "source_eos": (True,),
    "target_begin": ((),),
}
T5_EQUAL = (("encoder_heads", "decoder_heads"), ("encoder_ffn_dim", "decoder_ffn_dim"))  # T5 has one fact for both
_SENTINEL = "<extra_id_"


def t5_config(config: TransformerConfig) -> dict[str, Any]:
    """The facts of config.json, except those of special tokens."""
    scaled = _is_scaled(config)
    own = config.positions == "relative"
    return {
        "model_type": "umt5" if own else "t5",
        "architectures": ["UMT5ForConditionalGeneration" if own else "T5ForConditionalGeneration"],
        "vocab_size": config.target_vocab_size,
        "d_model": config.hidden_dim,
        "d_kv": config.attention_dim("encoder") // config.encoder_heads,
        "d_ff": config.encoder_ffn_dim,
        "num_layers": config.encoder_layers,
        "num_decoder_layers": config.decoder_layers,
        "num_heads": config.encoder_heads,
        "relative_attention_num_buckets": config.relative_buckets,
        "relative_attention_max_distance": config.relative_distance,
        "layer_norm_epsilon": config.norm_epsilon,
        "feed_forward_proj": (_GATED if config.gated_ffn else _ACTIVATIONS)[config.activation],
        "scale_decoder_outputs": scaled,
        "tie_word_embeddings": scaled,  # which older versions go by
    }


def t5_tensors(config: TransformerConfig, ours: Mapping[str, Floats]) -> dict[str, Floats]:
    """Weights under the names of T5; products of one input are cut apart."""
    tensors = {"shared.weight": ours["target_embedding"]}
    if not config.tied_output:
        tensors["lm_head.weight"] = ours["output_weight"]
    for side in ("encoder", "decoder"):
        for layer in range(getattr(config, f"{side}_layers")):
            tensors.update(_layer(ours, f"{side}.{layer}", f"{side}.block.{layer}.layer"))
        if f"{side}_position_bias" in ours:
            tensors[f"{side}.block.0.layer.0.SelfAttention.{_RELATIVE}"] = ours[f"{side}_position_bias"]
        tensors[f"{side}.final_layer_norm.weight"] = ours[f"{side}_norm.weight"]
    if _is_scaled(config):  # there after the norm, here in it
        tensors["decoder.final_layer_norm.weight"] = ours["decoder_norm.weight"] * np.float32(config.hidden_dim**0.5)
    return tensors


def t5_tokenizer(config: TransformerConfig, pieces: list[str], cut: int) -> dict[str, Any]:
    """The facts of tokenizer_config.json; the first `cut` of `pieces` are those of the SentencePiece model."""
    named = {"unk": config.unk_id, "eos": config.eos_id, "pad": config.pad_id}
    facts: dict[str, Any] = {f"{name}_token": pieces[token] for name, token in named.items()}
    sentinels = sum(piece.startswith(_SENTINEL) for piece in pieces[cut:])
    return facts | {"tokenizer_class": "T5Tokenizer", "extra_ids": sentinels}


_RELATIVE = "relative_attention_bias.weight"


def _is_scaled(config: TransformerConfig) -> bool:
    """Whether the class divides hidden vectors by sqrt(d_model): T5 v1.0, whose output is tied, and every umT5."""
    return config.tied_output or config.positions == "relative"


def _layer(ours: Mapping[str, Floats], name: str, theirs: str) -> Iterator[tuple[str, Floats]]:
    blocks = [("attention", "SelfAttention", {"qkv": "qkv", "out": "o"})]
    if f"{name}.cross.norm.weight" in ours:
        blocks.append(("cross", "EncDecAttention", {"query": "q", "key_value": "kv", "out": "o"}))
    for place, (block, kind, products) in enumerate(blocks):
        yield f"{theirs}.{place}.layer_norm.weight", ours[f"{name}.{block}.norm.weight"]
        for product, letters in products.items():
            for letter, part in zip(
                letters, np.split(ours[f"{name}.{block}.{product}.weight"], len(letters)), strict=True
            ):
                yield f"{theirs}.{place}.{kind}.{letter}.weight", np.ascontiguousarray(part)
    if f"{name}.attention.position_bias" in ours:
        yield f"{theirs}.0.SelfAttention.{_RELATIVE}", ours[f"{name}.attention.position_bias"]
    last, up, down = f"{theirs}.{len(blocks)}", ours[f"{name}.ffn.up.weight"], ours[f"{name}.ffn.down.weight"]
    yield f"{last}.layer_norm.weight", ours[f"{name}.ffn.norm.weight"]
    gated = len(up) == 2 * down.shape[1]
    for part_name, part in zip(("wi_0", "wi_1") if gated else ("wi",), np.split(up, 1 + gated), strict=True):
        yield f"{last}.DenseReluDense.{part_name}.weight", np.ascontiguousarray(part)
    yield f"{last}.DenseReluDense.wo.weight", down
