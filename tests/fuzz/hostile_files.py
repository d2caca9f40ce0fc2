"""Bytes of foreign models with accidents in them, and bytes that were made to harm; `imports.py` reads them."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np
from support.marian_writer import shortlist_of

SIZES = (0, 1, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**64 - 1)

# Values that a fact is replaced with: numbers too large, other types, too deep, a text that is none.
VALUES: tuple[Any, ...] = (
    10**18, [[-99999999]], -1, 1e308, None, [], {}, "x" * 10_000, True, [[]] * 50, {"a": {"b": {}}}, "\ud800", 2**40,
)  # fmt: skip


class Harm:
    """The call that a hostile pickle asks for."""

    def __init__(self, called: Any, *arguments: Any) -> None:
        self.call = called, arguments

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.call


def mutated(draw: np.random.Generator, whole: bytes) -> bytes:
    """`whole` with one to four accidents; half of them in its beginning, where headers are."""
    data = bytearray(whole)
    for _ in range(int(draw.integers(1, 5))):
        if not data:
            break
        end = len(data) if draw.random() < 0.5 else min(len(data), 4096)
        place, kind = int(draw.integers(end)), int(draw.integers(7))
        length = int(draw.integers(1, 65))
        if kind == 0:
            del data[place:]
        elif kind == 1:
            data[place] = int(draw.integers(256))
        elif kind == 2:
            data[place] ^= 1 << int(draw.integers(8))
        elif kind == 3:
            width = int(draw.choice([2, 4, 8]))
            number = SIZES[int(draw.integers(len(SIZES)))] % 2 ** (8 * width)
            data[place : place + width] = number.to_bytes(width, "little")
        elif kind == 4:
            del data[place : place + length]
        elif kind == 5:
            other = int(draw.integers(len(data)))
            data[place:place] = data[other : other + length]
        else:
            data[place:place] = draw.bytes(length)
    return bytes(data)


def npz(draw: np.random.Generator, whole: bytes) -> bytes:
    """Headers that promise other shapes and dtypes, objects among them; entries that grow."""
    headers = [
        "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 1099511627776), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "1," * 70 + "), }",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }",
        "{'descr': (), 'fortran_order': False, 'shape': (2,), }",
        "__import__('os').system('true')",
        "(" * 2000,
    ]
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        entries = old.infolist()
        chosen = entries[int(draw.integers(len(entries)))].filename
        for entry in entries:
            content = old.read(entry)
            if entry.filename == chosen:
                text = headers[int(draw.integers(len(headers)))].encode() + b"\n"
                content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content[-64:]
                if draw.random() < 0.1:
                    content += b"\0" * (8 << 20)
            new.writestr(entry.filename, content)
    return out.getvalue()


def marian(draw: np.random.Generator, whole: bytes) -> bytes:
    """Headers as above; or options and arrays that are sound by themselves, and fit nothing."""
    if draw.random() < 0.5:
        return npz(draw, whole)
    with np.load(io.BytesIO(whole)) as archive:
        arrays = dict(archive)
    config = "special:model.yml"
    if draw.random() < 0.5:
        lines = arrays[config].tobytes().decode().split("\n")
        at = int(draw.integers(len(lines)))
        name = lines[at].partition(":")[0]
        values = [
            "0",
            "-1",
            str(2**62),
            "9" * 5000,
            "true",
            '"',
            "[[[",
            "&a *a",
            "!!python/object/apply:os.system [x]",
            "x",
        ]
        lines[at] = f"{name}: {values[int(draw.integers(len(values)))]}"
        arrays[config] = np.frombuffer("\n".join(lines).encode(), np.int8)
    else:
        name = list(arrays)[int(draw.integers(len(arrays)))]
        arrays[name] = other_array(draw, arrays[name])
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def other_array(draw: np.random.Generator, array: Any) -> Any:
    """An array of another shape or type, or of numbers that are none."""
    changes: list[Any] = [
        array.T, array[None], array[:0], array[:1], array.reshape(-1), np.zeros((), array.dtype),
        array.astype(np.int64), array.astype(np.float16), np.full_like(array, -1), np.zeros((0, 3), np.float32),
        np.full(array.shape, np.nan), np.concatenate([array, array]),
    ]  # fmt: skip
    return changes[int(draw.integers(len(changes)))]


def sentencepiece(draw: np.random.Generator, whole: bytes) -> bytes:
    """Lengths and numbers of the protocol buffer made huge, fields repeated, and pieces that no model has put in."""
    data = bytearray(whole)
    for _ in range(int(draw.integers(1, 4))):
        at, kind = int(draw.integers(len(data))), int(draw.integers(4))
        huge = b"\xff" * int(draw.integers(1, 12)) + b"\x01"
        if kind == 0:
            data[at : at + 1] = huge  # a varint
        elif kind == 1:
            data[at:at] = bytes([int(draw.integers(1, 16)) << 3 | 2]) + huge  # a field of many bytes
        elif kind == 2:  # a piece of our own, of any type: 1 text, 2 score, 3 type
            text = [b"", b"\xff\xfe", b"x" * 10_000, b"<unk>", b"</s>", b"\0"][int(draw.integers(6))]
            score = struct.pack("<f", float(draw.choice([np.nan, np.inf, -np.inf, 0.0])))
            length = bytes([len(text) & 127 | 128, len(text) >> 7]) if len(text) > 127 else bytes([len(text)])
            piece = b"\x0a" + length + text + b"\x15" + score + b"\x18" + bytes([int(draw.integers(0, 9))])
            size = bytes([len(piece) & 127 | 128, len(piece) >> 7]) if len(piece) > 127 else bytes([len(piece)])
            data[0:0] = b"\x0a" + size + piece
        else:
            data += data[at : at + int(draw.integers(1, 500))]
    return bytes(data)


def json_object(draw: np.random.Generator, whole: bytes) -> bytes:
    """A fact, or what is inside of one, of another kind or under another name."""
    facts = inside = json.loads(whole)
    key = _any_key(draw, inside)
    while isinstance(inside[key], (dict, list)) and inside[key] and draw.random() < 0.7:
        inside = inside[key]
        key = _any_key(draw, inside)
    if isinstance(inside, dict) and draw.random() < 0.1:
        inside["\ud800"] = inside.pop(key)
    else:
        inside[key] = VALUES[int(draw.integers(len(VALUES)))]
    text = json.dumps(facts)
    tricks = [
        text,
        "[" * 100_000,
        text.replace("}", "," * 20, 1),
        "9" * 10_000,
        "",
        "null",
        text + text,
        "\ufeff" + text,
    ]
    return tricks[0 if draw.random() < 0.7 else int(draw.integers(len(tricks)))].encode("utf-8", "replace")


def _any_key(draw: np.random.Generator, inside: Any) -> Any:
    """A key of an object, or an index of a list."""
    keys = list(inside) if isinstance(inside, dict) else range(len(inside))
    return keys[int(draw.integers(len(inside)))]


def json_list(draw: np.random.Generator, whole: bytes) -> bytes:
    """A list of words in which one is none, stands twice, is one too many, or some are left out."""
    return json.dumps(_other_words(draw, json.loads(whole), VALUES)).encode()


def lines(draw: np.random.Generator, whole: bytes) -> bytes:
    """The same for a list of words with a line each."""
    values = ("", " ", "\0", "\r", "a\nb", "\ufeff", "\u2028", "x" * 10_000, "</s>", ">><<", "\ud800")
    words = _other_words(draw, whole.decode().split("\n")[:-1], values)
    return "".join(f"{word}\n" for word in words).encode("utf-8", "surrogatepass")


def _other_words(draw: np.random.Generator, words: list[Any], values: Sequence[Any]) -> list[Any]:
    at, other, kind = int(draw.integers(len(words))), int(draw.integers(len(words))), int(draw.integers(4))
    if kind == 0:
        words[at] = values[int(draw.integers(len(values)))]
    elif kind == 1:
        words[at] = words[other]
    elif kind == 2:
        del words[at:other]
    else:
        words.insert(at, words[other])
    return words


def safetensors(draw: np.random.Generator, whole: bytes) -> bytes:
    size = int.from_bytes(whole[:8], "little")
    header, body = json.loads(whole[8 : 8 + size]), whole[8 + size :]
    name = [key for key in header if key != "__metadata__"][int(draw.integers(len(header) - 1))]
    entry = header[name]
    changes: list[dict[str, Any]] = [
        {"shape": [2**40, 2**40]},
        {"shape": [0]},
        {"shape": [-1]},
        {"data_offsets": [0, 2**63]},
        {"data_offsets": [5, 1]},
        {"dtype": "I64"},
        {"dtype": "F8_E4M3"},
        {"dtype": "nothing"},
        {"dtype": "BF16"},
        {"shape": [1] * 1000},
    ]
    header[name] = entry | changes[int(draw.integers(len(changes)))]
    if draw.random() < 0.2:
        header["one more tensor"] = entry
    text = json.dumps(header).encode()
    length = len(text) if draw.random() < 0.8 else SIZES[int(draw.integers(len(SIZES)))]
    return struct.pack("<Q", length) + text + body


def pickled(draw: np.random.Generator, whole: bytes) -> bytes:
    """A pickle that would run something, alone or in the archive; or one that promises what is not there."""
    harms: list[Any] = [
        Harm(os.system, "true"),
        Harm(eval, "__import__('os').system('true')"),
        Harm(exec, "raise SystemExit"),
        Harm(getattr, "x", "__class__"),
        Harm(print, "x"),
        {"weight": Harm(os.system, "true")},
        [[[[[[]]]]]] * 3,
        "x" * 1000,
        {(1, 2): 3},
        2**100,
    ]
    harm = harms[int(draw.integers(len(harms)))]
    data = pickle.dumps(harm, protocol=int(draw.integers(0, 6)))
    kind = int(draw.integers(4))
    if kind == 0:
        return data
    if kind == 1:  # a bomb of references: each list holds the one before many times
        bomb = b"\x80\x02]q\0" + b"".join(
            b"](" + b"h" + bytes([i]) + (b"h" + bytes([i])) * 200 + b"eq" + bytes([i + 1]) for i in range(20)
        )
        data = bomb + b"."
    if kind == 2:
        data = b"\x80\x04" + draw.bytes(int(draw.integers(1, 200)))
    if whole[:2] != b"PK":
        return whole[: int(draw.integers(60, 160))] + data
    out = io.BytesIO()
    stored = draw.random() < 0.8
    with zipfile.ZipFile(io.BytesIO(whole)) as old, zipfile.ZipFile(out, "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            if entry.filename.endswith("data.pkl"):
                content = data
            elif draw.random() < 0.1:
                content = b"\0" * (1 << 20)
            new.writestr(entry.filename, content, zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED)
    return out.getvalue()


def ctranslate2(draw: np.random.Generator, whole: bytes) -> bytes:
    """Numbers of the header made huge, and names changed for each other."""
    data = bytearray(whole)
    names = (b"weight\0", b"bias\0", b"gamma\0", b"weight_scale\0", b"layer_0", b"num_heads\0", b"linear_0")
    for _ in range(int(draw.integers(1, 4))):
        name = names[int(draw.integers(len(names)))]
        places = [i for i in range(len(data)) if data.startswith(name, i)][:200]
        if not places:
            continue
        after = places[int(draw.integers(len(places)))] + len(name)
        at = after + int(draw.integers(0, 16))
        data[at : at + 4] = (SIZES[int(draw.integers(len(SIZES)))] % 2**32).to_bytes(4, "little")
    return bytes(data)


def marian_options(draw: np.random.Generator, whole: bytes) -> bytes:
    """Options of Marian's decoder with other values, and YAML that is too deep, refers to itself or would run code."""
    lines = whole.decode().split("\n")[:-1]
    at = int(draw.integers(len(lines)))
    name = lines[at].partition(":")[0]
    values = [
        "0", "-1", "9" * 5000, "1e999", "nan", "true", "[[[", "{" * 5000, "- " * 5000, "&a [*a]", "&a *a", "x", "",
        "!!python/object/apply:os.system [x]", "[../../../etc/passwd]", "[/dev/zero]", "\ud800", "\0", "x" * 70_000,
    ]  # fmt: skip
    lines[at] = f"{name}: {values[int(draw.integers(len(values)))]}"
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")


def marian_shortlist(draw: np.random.Generator, whole: bytes) -> bytes:
    """Numbers of a binary shortlist made huge, mostly under a checksum that is right."""
    data = bytearray(whole[16:])
    for _ in range(int(draw.integers(1, 4))):
        at = 8 * int(draw.integers(4 if draw.random() < 0.5 else len(data) // 8))
        data[at : at + 8] = (SIZES[int(draw.integers(len(SIZES)))] % 2**64).to_bytes(8, "little")
    return shortlist_of(bytes(data)) if draw.random() < 0.8 else whole[:16] + bytes(data)


def marian_binary(draw: np.random.Generator, whole: bytes) -> bytes:
    """Numbers of the header, of its shapes and before its arrays made huge, or other types."""
    data = bytearray(whole)
    count = int.from_bytes(data[8:16], "little")
    for _ in range(int(draw.integers(1, 4))):
        at = int(draw.choice([8, 16 + 8 * int(draw.integers(4 * count)), int(draw.integers(16, 96 * count))]))
        data[at : at + 8] = (SIZES[int(draw.integers(len(SIZES)))] % 2**64).to_bytes(8, "little")
    return bytes(data)
