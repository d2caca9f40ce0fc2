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

_NORMAL, _UNKNOWN, _CONTROL, _UNUSED = 1, 2, 3, 5  # types of pieces in a SentencePiece model
_MOST_DEPTH = 4  # of sequences of normalizers


def read_unigram(path: Path) -> tuple[bytes, list[str]]:
    """A serialized SentencePiece model that cuts text as the tokenizer in `path` does, and its pieces by id.

    Raises ModelError if that is no unigram model with a space sign before words.
    """
    whole = Facts(path, read_json(path, WORDS))
    model, added = whole.get("model"), whole.get("added_tokens") or []
    if not isinstance(model, dict) or model.get("type") not in ("Unigram", None) or "unk_id" not in model:
        raise whole.refusal("model", "an object of type Unigram, with unk_id")
    facts = Facts(path, model)
    facts.require("byte_fallback", [False])
    pieces = _pieces(path, model.get("vocab"))
    unk = facts.integer("unk_id")
    if not isinstance(added, list) or not all(isinstance(entry, dict) for entry in added):
        raise ModelError(f"{path}: added_tokens must be a list of objects.")
    types = [_NORMAL] * len(pieces)
    for entry in added:
        token, text = entry.get("id"), entry.get("content")
        if type(token) is not int or not 0 <= token <= len(pieces) or not isinstance(text, str):
            raise ModelError(
                f"{path}: each of added_tokens must have content, and an id that is the next or of a piece."
            )
        if token == len(pieces):
            pieces.append((text, 0.0))
            types.append(_CONTROL)
        elif pieces[token][0] != text:
            raise ModelError(f"{path}: id {token} is {pieces[token][0]!r:.40} and {text!r:.40}.")
        types[token] = _CONTROL
    if unk >= len(pieces):
        raise facts.refusal("unk_id", f"below {len(pieces)}")
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
    for step in _steps(path, whole.get("normalizer"), "normalizers"):
        if step.get("type") == "Precompiled" and not table:
            try:
                table = base64.b64decode(step.get("precompiled_charsmap") or "", validate=True)
            except (binascii.Error, TypeError, ValueError) as error:
                raise ModelError(f"{path}: precompiled_charsmap is no base64 ({error}); copy it again.") from error
        elif step.get("type") not in ("Replace", "Strip", "Nmt", "NFKC"):  # which join and strip spaces, as we do
            raise ModelError(f"{path}: normalizer has {step.get('type')!r:.40}, which Sharpbeam lacks.")
    spaces = [step.get("type") for step in _steps(path, whole.get("pre_tokenizer"), "pretokenizers")]
    if "Metaspace" not in spaces or {*spaces} - {"Metaspace", "WhitespaceSplit"}:
        raise ModelError(
            f"{path}: pre_tokenizer is {spaces!r:.60}; it must be Metaspace, which puts a sign for spaces."
        )
    return table


def _steps(path: Path, part: Any, name: str, depth: int = 0) -> list[dict[str, Any]]:
    """The steps of a sequence, or the only one."""
    if part is None:
        return []
    if not isinstance(part, dict) or depth > _MOST_DEPTH:
        raise ModelError(f"{path}: {name} must be objects, sequences at most {_MOST_DEPTH} deep.")
    if part.get("type") != "Sequence":
        return [part]
    inside = part.get(name)
    if not isinstance(inside, list):
        raise ModelError(f"{path}: {name} of a sequence must be a list.")
    return [step for one in inside for step in _steps(path, one, name, depth + 1)]


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
