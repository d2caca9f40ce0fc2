"""Folders of CTranslate2: model.bin, config.json and vocabularies -> ours."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.foreign import ForeignModel
from sharpbeam.convert.formats.ctranslate2 import read_model_file
from sharpbeam.convert.formats.spm import find_spms
from sharpbeam.convert.formats.weights import Tensor, values
from sharpbeam.convert.readers.ctranslate2_transformer import read_transformer
from sharpbeam.convert.readers.tokens import NO_SPM, Tags, TokenLists, read_list
from sharpbeam.errors import ModelError
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.text.json import WORDS, check_words, read_any_json, read_json

_SPECIAL = {"unk": "<unk>", "eos": "</s>", "decoder_start": "<s>"}
_LANGUAGE = re.compile(r"__([a-z]{2,3})__|([a-z]{3}_[A-Z][a-z]{3})")


def read_ctranslate2(folder: Path, source_spm: Path | None = None, target_spm: Path | None = None) -> ForeignModel:
    """The model in `folder`; raises ModelError if it is no transformer for translation, or has a feature that we lack.

    Its folder need not have the SentencePiece models; without any text is pieces.
    """
    path = folder / "model.bin"
    file = read_model_file(path)
    if file.kind != "TransformerSpec":
        raise ModelError(f"{path} holds a {file.kind!r:.60}; of CTranslate2's models TransformerSpec is read.")
    config_path = folder / "config.json"
    config = read_json(config_path) if config_path.is_file() else {}
    facts = Facts(config_path, config)
    if config.get("decoder_start_token", "") is None:
        raise facts.refusal(
            "decoder_start_token",
            "a word. Null lets each request name the first word of its answer, which Sharpbeam lacks; write the word "
            "there if it is the same one for all, or convert the model that this one was made of",
        )
    facts.require("add_source_bos", [False])
    if facts.get("quantization_type"):
        raise facts.refusal("quantization_type", "left out; Sharpbeam lacks it")
    sizes, tensors = read_transformer(path, file)
    epsilon = facts.get("layer_norm_epsilon")
    if epsilon is not None and not (isinstance(epsilon, float) and 0 < epsilon < 1):
        raise facts.refusal("layer_norm_epsilon", "a number between 0 and 1")
    epsilon = epsilon or (1e-6 if sizes["norm_kind"] == "rms" else 1e-5)
    # Tokenizers of Hugging Face end a source in </s>, which CTranslate2 leaves to them; models of OpenNMT-py, which
    # start from <s>, are trained without.
    bare = facts.text("decoder_start_token") in ("", "<s>") and not sizes["from_zero"]
    sizes |= {"source_eos": facts.flag("add_source_eos") or not bare, "norm_epsilon": epsilon}
    lists = TokenLists(facts.path, *_vocabularies(folder), *find_spms(folder, source_spm, target_spm))
    shared = lists.source is lists.target
    return _with_tokens(facts, lists, shared, sizes, tensors)


def _with_tokens(
    facts: Facts, lists: TokenLists, shared: bool, sizes: dict[str, Any], tensors: dict[str, Tensor]
) -> ForeignModel:
    """The model with its vocabularies, which have to be as long as the embeddings."""
    from_zero = sizes.pop("from_zero")
    special = {name: facts.text(f"{name}_token") or default for name, default in _SPECIAL.items()}
    for side in (lists.source, lists.target):
        if special["unk"] not in side:  # CTranslate2 adds it as the last one
            side.append(special["unk"])
    lists.check_sizes(sizes)
    ids = {f"{name}_id": lists.id(f"{name}_token", special[name]) for name in ("unk", "eos")}
    there, unk = lists.source.index(special["unk"]), ids["unk_id"]
    if not sizes["shared_embedding"] and there != unk < len(lists.source):
        # Models of OpenNMT-tf have it last on each side. We have one id for both: two rows of the source are exchanged.
        order = np.arange(len(lists.source))
        order[[there, unk]] = unk, there
        lists.source = [lists.source[token] for token in order]
        tensors["source_embedding"] = values(tensors["source_embedding"])[order]
    if from_zero:
        tensors, start = lists.add_start(tensors)
    else:
        start = lists.id("decoder_start_token", special["decoder_start"])
    pad = next((lists.target.index(token) for token in ("<pad>", "<blank>") if token in lists.target), start)
    ids |= {"bos_id": start, "pad_id": pad}
    tokens = lists.tokens(ids, _tags(lists, shared, start == ids["eos_id"]))
    config = TransformerConfig(**sizes | tokens.facts)
    ends = "end in eos, as tokenizers of Hugging Face put it" if config.source_eos else "do not end in eos"
    notes = [] if lists.source_spm and lists.target_spm else [NO_SPM]
    notes += [] if facts.flag("add_source_eos") else [f"Sources {ends}."]
    return ForeignModel("a CTranslate2 model", config, tensors, tokens.source, tokens.target, tuple(notes))


def _tags(lists: TokenLists, shared: bool, from_eos: bool) -> Tags:
    """The tags of languages; M2M100, NLLB and mBART-50, whose decoders start `from_eos`, have them on both sides."""
    codes = {match[1] or match[2]: i for i, word in enumerate(lists.target) if (match := _LANGUAGE.fullmatch(word))}
    if shared and len(codes) > 1 and from_eos:
        facts = {"languages": codes, "source_tag": "source", "target_tag": True}
        return Tags(facts, codes.values(), codes.values())
    return lists.tags(shared)


def _vocabularies(folder: Path) -> tuple[list[str], list[str]]:
    """Source and target tokens; one list if they are shared."""
    shared = _vocabulary(folder, "shared_vocabulary")
    if shared is not None:
        return shared, shared
    source, target = _vocabulary(folder, "source_vocabulary"), _vocabulary(folder, "target_vocabulary")
    if source is None or target is None:
        raise ModelError(f"{folder} has neither shared_vocabulary nor source_vocabulary and target_vocabulary.")
    return source, target


def _vocabulary(folder: Path, name: str) -> list[str] | None:
    """The tokens of one file; None if there is none."""
    path = folder / f"{name}.json"
    if not path.is_file():
        path = folder / f"{name}.txt"
        return read_list(path) if path.is_file() else None
    tokens = read_any_json(path, WORDS)
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise ModelError(f"{path} must be a list of words.")
    check_words(path, tokens)
    return tokens
