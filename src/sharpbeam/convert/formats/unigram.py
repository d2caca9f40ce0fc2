"""A tokenizer.json with a unigram model, as the SentencePiece model that it was made of."""

from __future__ import annotations

import base64
import binascii
import math
import struct
from pathlib import Path
from typing import Any

import sentencepiece

from sharpbeam.convert.facts import Facts
from sharpbeam.errors import ModelError
from sharpbeam.text.json import WORDS, check_words, read_json

_NORMAL, _UNKNOWN, _CONTROL = 1, 2, 3  # types of pieces in a SentencePiece model


def read_unigram(path: Path) -> tuple[bytes, list[str]]:
    """A serialized SentencePiece model that cuts text as the tokenizer in `path` does, and its pieces by id.

    Raises ModelError if that is no unigram model with a space sign before words.
    """
    whole = Facts(path, read_json(path, WORDS))
    model = whole.part("model")
    model.require("type", ["Unigram"])
    model.require("byte_fallback", [False])
    pieces, unk = _pieces(path, model.get("vocab")), model.integer("unk_id")
    types = [_NORMAL] * len(pieces)
    for entry in whole.objects("added_tokens"):
        token, text = entry.integer("id"), entry.text("content")
        if token == len(pieces):
            pieces.append((text, 0.0))
            types.append(_CONTROL)
        elif token > len(pieces) or pieces[token][0] != text:
            raise entry.refusal("id", f"the next one, {len(pieces)}, or that of the piece {text!r:.40}")
        types[token] = _CONTROL
    if unk >= len(pieces):
        raise model.refusal("unk_id", f"below {len(pieces)}")
    types[unk] = _UNKNOWN
    check_words(path, (piece for piece, _ in pieces))
    data = _serialized(pieces, types, _normalization(path, whole))
    try:
        sentencepiece.SentencePieceProcessor().LoadFromSerializedProto(data)
    except RuntimeError as error:
        raise ModelError(f"{path} has pieces that make no SentencePiece model ({error}); copy it again.") from error
    return data, [piece for piece, _ in pieces]


def _pieces(path: Path, vocab: Any) -> list[tuple[str, float]]:
    """Pieces and their scores; raises ModelError."""
    if not isinstance(vocab, list) or not vocab or not all(_is_scored(entry) for entry in vocab):
        raise ModelError(f"{path}: vocab must be a list of pieces with their scores.")
    return [(piece, float(score)) for piece, score in vocab]


def _is_scored(entry: Any) -> bool:
    if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[0], str) or not entry[0]:
        return False
    return type(entry[1]) in (int, float) and abs(entry[1]) < 1e30 and math.isfinite(entry[1])


def _normalization(path: Path, whole: Facts) -> bytes:
    """The table by which characters are replaced before text is cut; raises ModelError for other steps."""
    table = b""
    for step in _steps(whole, "normalizer", "normalizers"):
        if step.get("type") == "Precompiled" and not table:
            try:
                table = base64.b64decode(step.text("precompiled_charsmap"), validate=True)
            except (binascii.Error, ValueError) as error:
                raise ModelError(f"{path}: precompiled_charsmap is no base64 ({error}); copy it again.") from error
        elif step.get("type") not in ("Replace", "Strip", "Nmt", "NFKC"):  # which join and strip spaces, as we do
            raise ModelError(f"{path}: normalizer has {step.get('type')!r:.40}, which Sharpbeam lacks.")
    spaces = [step.text("type") for step in _steps(whole, "pre_tokenizer", "pretokenizers")]
    if "Metaspace" not in spaces or {*spaces} - {"Metaspace", "WhitespaceSplit"}:
        raise ModelError(f"{path}: pre_tokenizer is {spaces!r:.60}; it must be Metaspace, which marks spaces.")
    return table


def _steps(whole: Facts, name: str, plural: str) -> list[Facts]:
    """The steps of a sequence, or the only one; those of a sequence in a sequence are not read."""
    if whole.get(name) is None:
        return []
    step = whole.part(name)
    return step.objects(plural) if step.get("type") == "Sequence" else [step]


def _serialized(pieces: list[tuple[str, float]], types: list[int], table: bytes) -> bytes:
    """The protocol buffer of a SentencePiece model (sentencepiece_model.proto)."""
    parts = []
    for (piece, score), kind in zip(pieces, types, strict=True):
        entry = _field(1, piece.encode()) + b"\x15" + struct.pack("<f", score) + _number(3, kind)
        parts.append(_field(1, entry))
    trainer = _number(3, 1)  # unigram
    normalizer = _field(1, b"own") + _field(2, table) + _number(3, 1) + _number(4, 1) + _number(5, 1)
    return b"".join([*parts, _field(2, trainer), _field(3, normalizer)])


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _field(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data
