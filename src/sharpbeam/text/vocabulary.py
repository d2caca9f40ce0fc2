"""The interface of vocabularies, and which file of a model folder holds one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from sharpbeam.errors import ModelError
from sharpbeam.text.pieces import read_pieces
from sharpbeam.text.sentencepiece import SentencePieceVocabulary
from sharpbeam.text.words import WordVocabulary


class Vocabulary(Protocol):
    """Text <-> ids. Ids of bos, eos and pad are never produced by `encode` and are silent in `decode`."""

    @property
    def special_ids(self) -> dict[str, int]:
        """Ids of those of unk_id, bos_id, eos_id and pad_id that it has."""

    @property
    def serialized(self) -> bytes:
        """The bytes of its file."""

    def __len__(self) -> int: ...

    def encode(self, text: str) -> list[int]:
        """Text -> ids, no bos or eos."""

    def decode(self, ids: Sequence[int]) -> str:
        """Ids -> text."""

    def piece(self, token: int) -> str:
        """The piece or word of one id."""

    def pieces(self, ids: Sequence[int]) -> tuple[str, ...]:
        """The piece or word of each id."""


def read_vocabularies(folder: Path) -> tuple[Vocabulary, Vocabulary]:
    """Source and target vocabulary of a model folder.

    A language model has one vocabulary for both, and a target without a file of its own has the source's.
    """
    source = _read(folder, "source", "source.vocab.json") or _read(folder, "vocab", "vocab.json")
    if source is None:
        language = "vocab.spm or vocab.json in a language model"
        raise ModelError(
            f"{folder} has none of source.spm, source.pieces.json and source.vocab.json ({language}); "
            "the model folder is incomplete."
        )
    return source, _read(folder, "target", "target.vocab.json") or source


def _read(folder: Path, name: str, words: str) -> Vocabulary | None:
    spm, pieces = folder / f"{name}.spm", folder / f"{name}.pieces.json"
    if pieces.exists():
        return read_pieces(pieces, spm)
    if spm.exists():
        return SentencePieceVocabulary(spm)
    return WordVocabulary.load(folder / words) if (folder / words).exists() else None
