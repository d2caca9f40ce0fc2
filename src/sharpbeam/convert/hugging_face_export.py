"""A model folder of ours -> one of Hugging Face's MarianMT, so that anyone can check us with their own tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from sharpbeam.convert.readers.hugging_face.marian import NAMES
from sharpbeam.convert.readers.transformer import names_of
from sharpbeam.errors import ModelError
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.models.transformer.tensors import tensor_shapes
from sharpbeam.storage.atomic import replacing_folder
from sharpbeam.storage.model_folder import read_config, read_tensors
from sharpbeam.storage.tensors import save_tensors
from sharpbeam.text.pieces import PieceVocabulary
from sharpbeam.text.sentencepiece import SentencePieceVocabulary
from sharpbeam.text.vocabulary import Vocabulary, read_vocabularies
from sharpbeam.types import Floats

_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "gelu_sigmoid": "quick_gelu", "gelu_tanh": "gelu_new"}
_MOST_POSITIONS = 1024
_MARIAN = TransformerConfig(4, 4, norm="post", encoder_final_norm=False, decoder_final_norm=False)
# The facts in which a model must be as MarianMT is.
_FACTS = (
    *("norm", "encoder_final_norm", "decoder_final_norm", "embedding_norm", "norm_epsilon", "norm_kind", "gated_ffn"),
    *("experts", "head_dim", "scaled_attention", "positions", "position_offset", "decoder_kind", "target_tag"),
    *("source_begin", "source_eos", "target_begin"),
)


def export_hugging_face(folder: Path, to: Path) -> None:
    """Write the model in `folder` as MarianMT; raises ModelError by name for a fact that it cannot express."""
    config = _readable(folder)
    files = _tokenizer(folder, config, *read_vocabularies(folder))
    with replacing_folder(to) as staging:
        write_marian(folder, staging)
        for name, data in files.items():
            (staging / name).write_bytes(data)


def write_marian(folder: Path, to: Path) -> None:
    """Config and weights of the model in `folder` into the folder `to`; raises as `export_hugging_face`."""
    config = _readable(folder)
    allowed = {fact: [getattr(_MARIAN, fact)] for fact in _FACTS} | {"source_tag": ["none", "target"]}
    for fact, values in allowed.items():
        if getattr(config, fact) not in values:
            choices = " or ".join(map(repr, values))
            raise ModelError(f"{folder}: {fact} is {getattr(config, fact)!r}; MarianMT can only express {choices}.")
    save_tensors(to / "model.safetensors", _tensors(config, read_tensors(folder, config)), {"format": "pt"})
    (to / "config.json").write_bytes(_json(_config(config)))
    banned = {"bad_words_ids": [[token] for token in config.suppressed_ids]} if config.suppressed_ids else {}
    (to / "generation_config.json").write_bytes(_json(_special(config) | banned))


def _readable(folder: Path) -> TransformerConfig:
    config = read_config(folder)
    if not isinstance(config, TransformerConfig):
        raise ModelError(f"{folder} is no transformer; Hugging Face's MarianMT is one, so it cannot be exported.")
    return config


def _special(config: TransformerConfig) -> dict[str, Any]:
    return {
        "bos_token_id": None,
        "eos_token_id": config.eos_id,
        "pad_token_id": config.pad_id,
        "decoder_start_token_id": config.bos_id,
        "forced_eos_token_id": None,
    }


def _config(config: TransformerConfig) -> dict[str, Any]:
    c = asdict(config)
    facts = {"model_type": "marian", "architectures": ["MarianMTModel"], "is_encoder_decoder": True, **_special(config)}
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
        "max_position_embeddings": _MOST_POSITIONS,
        "normalize_before": False,
        "normalize_embedding": False,
        "add_final_layer_norm": False,
        "add_bias_logits": False,
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
    shapes = tensor_shapes(replace(config, attention_bias=True, ffn_bias=True))
    for name in [name for name in shapes if name.startswith(("encoder", "decoder"))]:
        tensor, parts = ours.get(name, np.zeros(shapes[name], np.float32)), names_of(name, NAMES)
        for theirs, part in zip(parts, np.split(tensor, len(parts)), strict=True):
            tensors[theirs] = np.ascontiguousarray(part)
    return tensors


def _tokenizer(folder: Path, config: TransformerConfig, source: Vocabulary, target: Vocabulary) -> dict[str, bytes]:
    """The files of MarianTokenizer."""
    spm, ids = [], []
    for side, vocabulary in (("source", source), ("target", target)):
        spm.append(_spm(folder, side, vocabulary))
        ids.append({vocabulary.piece(token): token for token in range(len(vocabulary))})
        if len(ids[-1]) < len(vocabulary):
            raise ModelError(
                f"{folder}: two words of the {side} vocabulary have one name, which MarianMT cannot express."
            )
    special = {"unk": config.unk_id, "eos": config.eos_id, "pad": config.pad_id}
    facts: dict[str, Any] = {f"{name}_token": target.piece(token) for name, token in special.items()}
    apart = ids[0] != ids[1]
    facts |= {"tokenizer_class": "MarianTokenizer", "separate_vocabs": apart, "model_max_length": _MOST_POSITIONS}
    files = {"source.spm": spm[0], "target.spm": spm[1], "vocab.json": _json(ids[0])}
    return files | {"tokenizer_config.json": _json(facts)} | ({"target_vocab.json": _json(ids[1])} if apart else {})


def _spm(folder: Path, side: str, vocabulary: Vocabulary) -> bytes:
    """The SentencePiece model of one side; raises ModelError if it has none."""
    data = vocabulary.spm if isinstance(vocabulary, PieceVocabulary) else None
    if isinstance(vocabulary, SentencePieceVocabulary):
        data = vocabulary.serialized
    if data is None:
        raise ModelError(
            f"{folder}: the {side} vocabulary has no SentencePiece model, which Hugging Face's class needs."
        )
    return data


def _json(facts: Mapping[str, Any]) -> bytes:
    return (json.dumps(facts, ensure_ascii=False, indent=2) + "\n").encode()
