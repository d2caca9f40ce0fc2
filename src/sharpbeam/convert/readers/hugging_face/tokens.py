"""The parts of a tokenizer of Hugging Face: pieces with their ids, special tokens, languages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.formats.spm import read_spm
from sharpbeam.convert.readers.tokens import Tags, TokenLists, Tokens
from sharpbeam.errors import ModelError
from sharpbeam.text.json import WORDS, check_words, read_json

SourceTag = Literal["none", "source", "target", "source-behind"]  # vocabulary: stored


def tokenizer_facts(folder: Path, defaults: Mapping[str, Any] | None = None) -> Facts:
    """The facts of tokenizer_config.json, if it is there."""
    path = folder / "tokenizer_config.json"
    return Facts(path, read_json(path) if path.is_file() else {}, defaults)


def multilingual(
    folder: Path,
    ids: Mapping[str, int],
    size: int,
    special: Mapping[str, int],
    languages: dict[str, int],
    tag: SourceTag,
    target: str = "",
) -> Tokens:
    """The tokens of a model with a vocabulary for all languages, for `size` rows of its embedding.

    Each answer begins with the tag of its language, unless the model has one `target` only, or a source names it.
    """
    outside = [code for code, token in languages.items() if token >= size]
    if not languages or outside:
        fault = f"language {outside[0]!r} has a token outside the embedding" if outside else "it names no languages"
        raise ModelError(f"{folder}: {fault}; its tokenizer files are not those of the weights.")
    pieces, (spm, _) = by_id(ids, size), read_spm(folder / "sentencepiece.bpe.model")
    # src_lang and tgt_lang of tokenizer_config.json are whatever the tokenizer was saved with, so nothing is a default.
    facts: dict[str, Any] = {"languages": languages, "target_language": target, "source_tag": tag}
    facts["target_tag"] = not target and tag != "target"
    return TokenLists(folder, pieces, pieces, spm, spm).tokens(
        special, Tags(facts, languages.values(), languages.values())
    )


def added_tokens(folder: Path, first: int) -> dict[str, int]:
    """The tokens that a tokenizer has next to its pieces, and their ids: written there, or by their order."""
    path = folder / "tokenizer.json"
    if path.is_file():
        entries = Facts(path, read_json(path, WORDS)).objects("added_tokens")
        tokens = {entry.text("content"): entry.integer("id") for entry in entries}
    else:
        path = folder / "special_tokens_map.json"
        codes = read_json(path).get("additional_special_tokens") if path.is_file() else None
        if not isinstance(codes, list) or not all(isinstance(code, str) for code in codes):
            raise ModelError(f"{folder} has neither tokenizer.json nor a list of languages in special_tokens_map.json.")
        tokens = {code: first + i for i, code in enumerate(codes)}
    check_words(path, tokens)
    return tokens


def read_ids(path: Path) -> dict[str, int]:
    """Pieces and their ids; raises ModelError as `check_ids`."""
    return check_ids(path, read_json(path, WORDS))


def check_ids(path: Path, ids: dict[str, Any]) -> dict[str, int]:
    """`ids`; raises ModelError for ids that are no numbers, or of two pieces, and for pieces that are no text."""
    if not all(type(token) is int and token >= 0 for token in ids.values()):
        raise ModelError(f"{path} must give each piece an id of 0 or more.")
    if len(set(ids.values())) != len(ids):
        raise ModelError(f"{path} gives an id to two pieces.")
    check_words(path, ids)
    return ids


def id_of(path: Path, ids: Mapping[str, int], piece: str) -> int:
    """The id of `piece`; raises ModelError if `path`, whose `ids` these are, lacks it."""
    if piece not in ids:
        raise ModelError(f"{path} lacks the piece {piece!r} for unknown words.")
    return ids[piece]


def by_id(ids: Mapping[str, int], size: int) -> list[str]:
    """The piece of each of `size` ids; those without one get a name that no text has."""
    pieces = [f"<unused {i}>" for i in range(size)]
    for piece, token in ids.items():
        if token >= size:
            raise ModelError(
                f"the vocabulary gives {piece!r:.40} the id {token}, but the embedding has {size} rows; the files are "
                "not of one model."
            )
        pieces[token] = piece
    return pieces
