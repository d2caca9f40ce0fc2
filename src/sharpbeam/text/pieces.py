"""Vocabularies of imported models: SentencePiece cuts the text, a list says which id each piece has.

Hugging Face's MarianMT, M2M100 and NLLB number the pieces otherwise than the SentencePiece model does, and have words
that it lacks. Without SentencePiece the text is pieces already, with spaces between, as CTranslate2 takes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any

from sharpbeam._core import call_native
from sharpbeam.errors import ModelError
from sharpbeam.text.json import WORDS, read_any_json
from sharpbeam.text.lines import read_whole
from sharpbeam.text.piece_table import PieceTable
from sharpbeam.text.sentencepiece import open_processor, plain_signs

FORMAT_VERSION = 1
_SPECIAL = ("unk_id", "bos_id", "eos_id", "pad_id")
_TAG = re.compile(r">>(.+?)<<|<2([A-Za-z][\w-]*)>")  # of a target language


class PieceVocabulary:
    """Pieces with ids from 0. What has no piece is unk; bos, eos, pad and `silent` ones are never text.

    A text may begin with a piece >>code<< or <2code>, as OPUS-MT with several target languages and MADLAD-400 ask for.
    """

    def __init__(
        self, pieces: Sequence[str], special_ids: Mapping[str, int], silent: Collection[int], spm: bytes | None
    ) -> None:
        """`special_ids` has unk_id, bos_id, eos_id and pad_id; `spm` is a serialized SentencePiece model."""
        self.special_ids = {name: special_ids[name] for name in _SPECIAL}
        self.spm = spm
        self._silent = frozenset(silent)
        self._processor = None if spm is None else open_processor(spm, "the vocabulary's file")
        self._hidden = self._silent.union(self.special_ids[name] for name in ("bos_id", "eos_id", "pad_id"))
        # Text cannot name a special word: a "</s>" in a text is pieces, or unknown.
        self._pieces = PieceTable(pieces, self._hidden)
        self._tags = {piece: i for i, piece in enumerate(pieces) if i in self._silent and tag_code(piece)}
        self._written: Callable[[str], str] = str  # until it is known what the pieces lack
        self._written = plain_signs(lambda sign: spm is not None and self.special_ids["unk_id"] in self.encode(sign))

    @property
    def serialized(self) -> bytes:
        """The bytes of the list's file, and after them those of the SentencePiece model."""
        return self.listed + (self.spm or b"")

    @cached_property
    def listed(self) -> bytes:
        """The bytes of the list's file, which `load` reads."""
        facts: dict[str, Any] = {"format_version": FORMAT_VERSION, **self.special_ids, "silent": sorted(self._silent)}
        # As json.dumps has it with indent=0, which would take Python's own encoder, item by item.
        head, pieces = json.dumps(facts, ensure_ascii=False, indent=0)[:-2], map(encode_basestring, self._pieces)
        return (head + ',\n"pieces": [\n' + ",\n".join(pieces) + "\n]\n}\n").encode()

    def __len__(self) -> int:
        return len(self._pieces)

    def encode(self, text: str) -> list[int]:
        """Text -> ids, no bos or eos."""
        ids: list[int] = []
        if self._tags and (tag := _TAG.match(text)) and tag[0] in self._tags:
            ids, text = [self._tags[tag[0]]], text[tag.end() :]
        spm = self._processor
        cut = call_native(spm.EncodeAsPieces, self._written(text)) if spm else text.split()
        return ids + self._pieces.find_all(cut, self.special_ids["unk_id"])

    def decode(self, ids: Sequence[int]) -> str:
        """Ids -> text; bos, eos, pad and silent tokens are left out."""
        ids = list(map(int, ids))
        pieces = self._pieces.pieces(ids if self._hidden.isdisjoint(ids) else [i for i in ids if i not in self._hidden])
        if self._processor is None:
            return " ".join(pieces)
        # Pieces of the other side's vocabulary are no pieces to the processor, which leaves their sign for a space.
        return str(call_native(self._processor.DecodePieces, pieces)).replace("▁", " ").strip()

    def piece(self, token: int) -> str:
        """The piece of one id."""
        return self._pieces.piece(int(token))

    def pieces(self, ids: Sequence[int]) -> tuple[str, ...]:
        """The piece of each id."""
        return tuple(self._pieces.pieces(list(map(int, ids))))


def tag_code(piece: str) -> str:
    """The code of a piece >>code<< or <2code>; empty for others."""
    tag = _TAG.fullmatch(piece)
    return (tag[1] or tag[2]) if tag else ""


def read_pieces(path: Path, spm: Path) -> PieceVocabulary:
    """The list in `path`, with the SentencePiece model where the file `spm` is there; raises ModelError."""
    facts, data = read_any_json(path, WORDS), read_whole(spm, ModelError) if spm.exists() else None
    again = "convert the model again."
    if not isinstance(facts, dict) or facts.get("format_version") != FORMAT_VERSION:
        raise ModelError(f"{path} is no list of pieces of format_version {FORMAT_VERSION}; {again}")
    pieces, silent = facts.get("pieces"), facts.get("silent")
    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        raise ModelError(f"{path}: pieces must be a list of texts; {again}")
    ids = [facts.get(name) for name in _SPECIAL]
    ids += silent if isinstance(silent, list) else [None]
    if not all(type(token) is int and 0 <= token < len(pieces) for token in ids):
        raise ModelError(f"{path}: {', '.join(_SPECIAL)} and silent must be ids below {len(pieces)}; {again}")
    return PieceVocabulary(pieces, facts, facts["silent"], data)
