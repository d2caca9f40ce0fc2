"""Models of Marian: model.npz or its binary form, with its vocabularies -> ours.

The decoder starts from a zero vector, for which a token with a zero embedding is appended.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.foreign import ForeignModel
from sharpbeam.convert.formats.marian import is_marian_file, read_marian_file
from sharpbeam.convert.formats.npz import read_npz
from sharpbeam.convert.formats.weights import BFloat16, Stored, Tensor, Tensors, Weights
from sharpbeam.convert.formats.yaml import read_options
from sharpbeam.convert.readers.marian_files import (
    MarianFiles,
    find_marian_files,
    is_options_file,
    named_model,
    read_vocabulary,
)
from sharpbeam.convert.readers.marian_transformer import read_transformer
from sharpbeam.convert.readers.tokens import TokenLists
from sharpbeam.errors import ModelError
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.storage.marian_shortlist import read_marian_shortlist

_CONFIG = "special:model.yml"
_OUTPUT = "decoder_ff_logit_out"  # name of the output layer
_ABSENT = ("layer-normalization", "right-left")
_PRE_NORM = (
    "It is a pre-norm model (transformer-preprocess n): Marian's own decoder caches keys and values of earlier tokens "
    "without their norm, unlike Marian's training and scorer, so its output may differ. Sharpbeam applies the norm, as "
    "in training."
)


def read_marian(path: Path, source: Path | None, target: Path | None) -> ForeignModel:
    """The model in `path`: .npz, Marian's binary form, or YAML options that name it, with its files next to it.

    `source` and `target` are its vocabularies, if the caller names them. Raises ModelError or InputError.
    """
    options = path if is_options_file(path) else None
    path = named_model(path) if options else path
    arrays: dict[str, Stored] = {**(read_marian_file(path) if is_marian_file(path) else read_npz(path))}
    config_bytes = arrays.pop(_CONFIG, None)
    if not isinstance(config_bytes, np.ndarray):
        raise ModelError(f"{path} lacks {_CONFIG}; it is no model of Marian.")
    facts = Facts(path, read_options(path, config_bytes.tobytes()))
    # Norms before a block have a suffix, which adds no information.
    names = {name: plain if (plain := name.removesuffix("_pre")) not in arrays else name for name in arrays}
    names = {name: ours for name, ours in names.items() if not name.startswith("special:")}
    arrays = {ours: _in_our_order(ours, arrays[name]) for name, ours in names.items()}
    facts.choice("type", {"transformer": None})
    for name in _ABSENT:
        facts.require(name, [False])
    tensors = Tensors(Weights(path, arrays))
    sizes = read_transformer(facts, tensors, _embeddings(tensors))
    tensors.weights.check_all_taken()
    return _with_tokens(find_marian_files(path, source, target, options), sizes, tensors)


def _embeddings(tensors: Tensors) -> dict[str, Any]:
    """The embeddings and the output layer, which may be tied."""
    weights, target, bias = tensors.weights, ("Wemb", "decoder_Wemb"), f"{_OUTPUT}_b"
    sizes = tensors.add_embeddings(("Wemb", "encoder_Wemb"), target, (f"{_OUTPUT}_W", f"{_OUTPUT}_Wt", *target))
    size = sizes["target_vocab_size"]
    tensors["output_bias"] = weights.take(bias, size) if bias in weights else np.zeros(size, np.float32)
    return sizes


def _with_tokens(files: MarianFiles, sizes: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> ForeignModel:
    """The model with its vocabularies, and with one more token on each side, from which the decoder starts."""
    source, source_spm = read_vocabulary(files.source, sizes["source_vocab_size"])
    target, target_spm = read_vocabulary(files.target, sizes["target_vocab_size"])
    lists = TokenLists(files.model, source, target, source_spm, target_spm)
    ids = {"unk_id": lists.id("unk", "<unk>"), "eos_id": lists.id("eos", "</s>")}
    tensors, start = lists.add_start(tensors)
    tokens = lists.tokens(ids | {"bos_id": start, "pad_id": start})
    config = TransformerConfig(**{**sizes, **tokens.facts})
    shortlist, shared = None, tokens.source is tokens.target
    if files.shortlist is not None:
        vocabularies = len(tokens.source), len(tokens.target)
        shortlist = read_marian_shortlist(files.shortlist, *vocabularies, {*ids.values(), start}, shared)
    pre_norm = config.norm == "pre" and config.decoder_kind == "attention"
    notes = [*files.notes, *([_PRE_NORM] if pre_norm else [])]
    return ForeignModel(
        "a Marian model", config, tensors, tokens.source, tokens.target, tuple(notes), shortlist, files.decoding
    )


def _in_our_order(name: str, array: Stored) -> Stored:
    """A matrix [out, in], which Marian has as [in, out], except for embeddings; and a vector, which it has as a row."""
    if isinstance(array, BFloat16) or len(array.shape) != 2 or re.search(r"Wemb|_Wt$", name):
        return array
    is_vector = re.search(r"_b[a-z0-9]*$|_b_att$|_ln_(scale|bias)$", name) and array.shape[0] == 1
    return array.reshape(-1) if is_vector and isinstance(array, np.ndarray) else array.T
