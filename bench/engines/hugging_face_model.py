"""A transformer of ours as MarianMT of Hugging Face, so that both decode with the same weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from sharpbeam.convert.readers.hugging_face.families import NAMES
from sharpbeam.convert.readers.transformer import names_of
from sharpbeam.errors import ModelError
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.storage.model_folder import read_config, read_tensors
from sharpbeam.storage.tensors import save_tensors
from sharpbeam.types import Floats

_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "gelu_sigmoid": "quick_gelu", "gelu_tanh": "gelu_new"}
_MARIAN = TransformerConfig(4, 4, norm="post", encoder_final_norm=False, decoder_final_norm=False)
# The facts in which a model must be as MarianMT is.
_FACTS = (
    *("norm", "encoder_final_norm", "decoder_final_norm", "embedding_norm", "norm_epsilon", "norm_kind", "gated_ffn"),
    *("experts", "head_dim", "scaled_attention", "positions", "position_offset", "decoder_kind", "target_tag"),
    *("source_begin", "source_eos", "target_begin"),
)


def write(folder: Path, to: Path) -> None:
    """Config and weights of the model in `folder` into the folder `to`; ModelError names a fact that MarianMT lacks."""
    config = read_config(folder)
    if not isinstance(config, TransformerConfig):
        raise ModelError(f"{folder} is no transformer, as MarianMT is.")
    for fact, value in [(fact, getattr(config, fact)) for fact in _FACTS]:
        if value != getattr(_MARIAN, fact):
            raise ModelError(f"{folder}: {fact} is {value!r}; MarianMT can only express {getattr(_MARIAN, fact)!r}.")
    save_tensors(to / "model.safetensors", _tensors(config, read_tensors(folder, config)), {"format": "pt"})
    special: dict[str, Any] = {"bos_token_id": None, "forced_eos_token_id": None, "eos_token_id": config.eos_id}
    special |= {"pad_token_id": config.pad_id, "decoder_start_token_id": config.bos_id}
    (to / "config.json").write_text(json.dumps(special | _config(config)))
    banned = {"bad_words_ids": [[token] for token in config.suppressed_ids]} if config.suppressed_ids else {}
    (to / "generation_config.json").write_text(json.dumps(special | banned))


def _config(config: TransformerConfig) -> dict[str, Any]:
    facts, c = {"model_type": "marian", "architectures": ["MarianMTModel"], "is_encoder_decoder": True}, asdict(config)
    for side in ("encoder", "decoder"):
        facts |= {f"{side}_layers": c[f"{side}_layers"], f"{side}_ffn_dim": c[f"{side}_ffn_dim"]}
        facts[f"{side}_attention_heads"] = c[f"{side}_heads"]
    return facts | {
        "vocab_size": config.source_vocab_size,
        "decoder_vocab_size": config.target_vocab_size,
        "d_model": config.hidden_dim,
        "num_hidden_layers": config.encoder_layers,
        "activation_function": _ACTIVATIONS[config.activation],
        "scale_embedding": config.scaled_embedding,
        "share_encoder_decoder_embeddings": config.shared_embedding,
        "tie_word_embeddings": config.tied_output,
        "max_position_embeddings": 1024,
        "static_position_embeddings": True,
        "dtype": "float32",
    }


def _tensors(config: TransformerConfig, ours: Mapping[str, Floats]) -> dict[str, Floats]:
    """Weights under the names of MarianMT; products of one input are cut apart, missing biases are zeros."""
    tensors = {"final_logits_bias": ours["output_bias"][None]}
    if config.shared_embedding:
        tensors["model.shared.weight"] = ours["target_embedding"]
    else:
        tensors["model.encoder.embed_tokens.weight"] = ours["source_embedding"]
        tensors["model.decoder.embed_tokens.weight"] = ours["target_embedding"]
    if not config.tied_output:
        tensors["lm_head.weight"] = ours["output_weight"]
    shapes = replace(config, attention_bias=True, ffn_bias=True).tensor_shapes()
    for name in [name for name in shapes if name.startswith(("encoder", "decoder"))]:
        tensor, parts = ours.get(name, np.zeros(shapes[name], np.float32)), names_of(name, NAMES)
        for theirs, part in zip(parts, np.split(tensor, len(parts)), strict=True):
            tensors[theirs] = np.ascontiguousarray(part)
    return tensors
