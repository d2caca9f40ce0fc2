"""The tokens of a model of Hugging Face: vocabularies, special tokens and languages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sharpbeam.convert.formats.spm import read_spm
from sharpbeam.errors import ModelError
from sharpbeam.text.json import WORDS, check_words, read_json
from sharpbeam.text.pieces import PieceVocabulary

SourceTag = Literal["none", "source", "target", "source-behind"]  # vocabulary: stored


@dataclass(frozen=True)
class Words:
    """The vocabularies of a model, and what its config says of them."""

    source: PieceVocabulary
    target: PieceVocabulary
    special: Mapping[str, int]
    languages: dict[str, int]
    source_language: str
    target_language: str
    source_tag: SourceTag
    target_tag: bool
    source_begin: tuple[int, ...] = ()
    target_begin: tuple[int, ...] = ()

    @property
    def facts(self) -> dict[str, Any]:
        """The facts of TransformerConfig on tokens and languages."""
        own = {name: getattr(self, name) for name in vars(self) if name not in ("source", "target", "special")}
        return {**self.special, **own}


def multilingual(
    folder: Path,
    pieces: list[str],
    special: Mapping[str, int],
    languages: dict[str, int],
    tag: SourceTag,
    target: str | None = None,
) -> Words:
    """The words of a model with a vocabulary for all languages.

    Each answer begins with the tag of its language, unless the model has one `target` only, or a source names it.
    """
    outside = [code for code, token in languages.items() if token >= len(pieces)]
    if not languages or outside:
        what = f"language {outside[0]!r} has a token outside the embedding" if outside else "it names no languages"
        raise ModelError(f"{folder}: {what}; its tokenizer files are not those of the weights.")
    words = PieceVocabulary(pieces, special, languages.values(), read_spm(folder / "sentencepiece.bpe.model")[0])
    # src_lang and tgt_lang of tokenizer_config.json are whatever the tokenizer was saved with, so nothing is a default.
    return Words(words, words, special, languages, "", target or "", tag, target is None and tag != "target")


def added_tokens(folder: Path, first: int) -> Iterable[tuple[str, int]]:
    """The tokens that a tokenizer has next to its pieces, and their ids: written there, or by their order."""
    path = folder / "tokenizer.json"
    if path.is_file():
        added = read_json(path, WORDS).get("added_tokens")
        if not isinstance(added, list) or not all(isinstance(entry, dict) for entry in added):
            raise ModelError(f"{path}: added_tokens must be a list of objects.")
        tokens = [(entry.get("content"), entry.get("id")) for entry in added]
        if not all(isinstance(text, str) and type(token) is int and token >= 0 for text, token in tokens):
            raise ModelError(f"{path}: each of added_tokens must have content and id.")
        check_words(path, (text for text, _ in tokens))
        return tokens
    path = folder / "special_tokens_map.json"
    listed = read_json(path).get("additional_special_tokens") if path.is_file() else None
    if not isinstance(listed, list) or not all(isinstance(code, str) for code in listed):
        raise ModelError(f"{folder} has neither tokenizer.json nor a list of languages in special_tokens_map.json.")
    check_words(path, listed)
    return [(code, first + i) for i, code in enumerate(listed)]


def read_ids(path: Path) -> dict[str, int]:
    """Pieces and their ids; raises ModelError as `check_ids`."""
    return check_ids(path, read_json(path, WORDS))


def check_ids(path: Path, ids: dict[str, Any]) -> dict[str, int]:
    """`found`; raises ModelError for ids that are no numbers, or given twice, and for pieces that are no text."""
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
    too_high = [piece for piece, token in ids.items() if token >= size]
    if too_high:
        raise ModelError(
            f"the vocabulary gives {too_high[0]!r:.40} the id {ids[too_high[0]]}, but the embedding has {size} rows; "
            "the files are not of one model."
        )
    pieces = [f"<unused {i}>" for i in range(size)]
    for piece, token in ids.items():
        pieces[token] = piece
    return pieces
