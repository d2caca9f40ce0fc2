"""Marian's files: model.npz, its binary form (`marian-conv`; .bin), and options in YAML.

The binary form, little-endian (Marian's src/common/binary.cpp): the version, 1; the number of arrays; for each array
the length of its name, its type, and the lengths of its shape and data; the names, each with a final NUL; the shapes;
padding; the data.

Quantized matrices (intgemm8, intgemm16) are transposed, embeddings ("Wemb") are not; the scale follows the integers,
and a value is integer / scale. Integers of 8 bits stay so; those of 16 bits become float32. Marian and its browsermt
branch, which Firefox's models come from, number these types differently; both are read. Matrices that are packed for
one kind of processor (FBGEMM's, and intgemm's for a register width) are refused. `*_QuantMultA`, the static scale of a
layer's input, is left out: activations are quantized by the largest value of each vector, which clips nothing. Files
are written with browsermt's numbers.
"""

from __future__ import annotations

import math
import re
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from sharpbeam.convert.formats.files import Bytes, reading
from sharpbeam.convert.formats.weights import Stored
from sharpbeam.errors import ModelError
from sharpbeam.storage.tensors import Int8Matrix
from sharpbeam.text.lines import check_regular, read_whole
from sharpbeam.types import Floats

CONFIG = "special:model.yml"  # an array that holds the options of the model, the last one
_VERSION = 1
_PLAIN = {0x101: "<i1", 0x102: "<i2", 0x104: "<i4", 0x402: "<f2", 0x404: "<f4"}
_QUANTIZED = {0x4101: "<i1", 0x4102: "<i2", 0x10001: "<i1", 0x10002: "<i2"}  # browsermt's numbers, then Marian's
_FLOATS, _BYTES, _INT8 = 0x404, 0x101, 0x4101  # the types that are written
_ALIGNED = 256  # bytes that the data of each array begins at a multiple of
INPUT_SCALE = "_QuantMultA"
_LEAST_SCALE = 1e-30  # below it the values of 16-bit integers leave float32
_MOST_ARRAYS, _MOST_RANK, _MOST_NAME = 1 << 16, 8, 1 << 12
# Bytes of all arrays of a .npz, and how many times those of the file they may be: weights hardly compress, and a bomb
# of zeros is a thousand times as large as its file.
_SMALL, _DEFLATED = 1 << 24, 8
_MOST_OPTIONS = 1 << 16  # bytes


def is_marian_file(path: Path) -> bool:
    """Whether a file begins as Marian's do; models of CTranslate2 begin with another number of four bytes."""
    try:
        check_regular(path)
        with path.open("rb") as file:
            return file.read(8) == struct.pack("<Q", _VERSION)
    except OSError:
        return False


def read_marian_file(path: Path) -> dict[str, Stored]:
    """All arrays by name, in the shapes of model.npz; raises ModelError for a damaged file and for other types."""
    with reading(path, "a binary model of Marian", ValueError):
        raw = Bytes(path)
        version, count = raw.numbers("<QQ")
        if version != _VERSION or count > _MOST_ARRAYS:
            raise ValueError(f"it has version {version} and {count} arrays")
        headers = [raw.numbers("<QQQQ") for _ in range(count)]
        if any(name > _MOST_NAME or rank > _MOST_RANK for name, _, rank, _ in headers):
            raise ValueError("the name or the shape of an array is too long")
        names = [raw.take(length).tobytes().rstrip(b"\0").decode("utf-8") for length, _, _, _ in headers]
        shapes = [raw.numbers(f"<{rank}i") for _, _, rank, _ in headers]
        raw.take(*raw.numbers("<Q"))  # padding
        arrays: dict[str, Stored] = {}
        for name, shape, (_, kind, _, length) in zip(names, shapes, headers, strict=True):
            data = raw.take(length)
            if not name.endswith(INPUT_SCALE):
                arrays[name] = _array(f"{path}: {name!r}", kind, shape, data)
        return arrays


def _array(name: str, kind: int, shape: tuple[int, ...], data: NDArray[np.uint8]) -> Stored:
    """One array; files are padded, so `data` may be longer than the array needs."""
    is_quantized, code = kind in _QUANTIZED, (_PLAIN | _QUANTIZED).get(kind)
    if code is None:
        raise ModelError(
            f"{name} has type {kind:#x}, which is unknown or packed for one kind of processor; convert the model.npz "
            "that it was made from, or a .bin written with --gemm-type intgemm8."
        )
    dtype, size = np.dtype(code), math.prod(shape)
    byte_count = size * dtype.itemsize + (4 if is_quantized else 0)
    if min(shape, default=0) < 0 or byte_count > len(data):
        raise ValueError(f"{name} of shape {shape} has {len(data)} bytes")
    numbers = np.frombuffer(data, dtype, size)
    if not is_quantized:
        return numbers.reshape(shape)
    scale = float(np.frombuffer(data, "<f4", 1, size * dtype.itemsize)[0])
    if len(shape) != 2 or not _LEAST_SCALE < scale < math.inf:
        raise ValueError(f"{name} of shape {shape} has the scale {scale}")
    is_embedding = "Wemb" in name
    rows = numbers.reshape(shape if is_embedding else shape[::-1])
    matrix = Int8Matrix(rows, np.full((1, 1), scale, np.float32))
    matrix = matrix if is_embedding else matrix.T
    return matrix if dtype.itemsize == 1 else matrix.values()


def write_marian_file(path: Path, arrays: Mapping[str, Floats | Int8Matrix], options: bytes) -> None:
    """Write a binary model that `read_marian_file` reads: matrices of int8 have one scale, others are float32.

    The int8 matrices are [out, in], or embeddings [V, D]; float32 arrays have two axes. `options` is special:model.yml.
    """
    entries: list[tuple[str, int, tuple[int, ...], bytes]] = []
    for name, array in sorted(arrays.items()):
        if isinstance(array, Int8Matrix):
            shape = array.shape if "Wemb" in name else array.shape[::-1]
            entries.append((name, _INT8, shape, array.integers.tobytes() + array.scale.astype("<f4").tobytes()))
        else:
            entries.append((name, _FLOATS, array.shape, array.astype("<f4").tobytes()))
    entries = [(*entry[:3], entry[3] + bytes(-len(entry[3]) % _ALIGNED)) for entry in entries]
    entries.append((CONFIG, _BYTES, (len(options),), options))
    names = [name.encode() + b"\0" for name, *_ in entries]
    head = struct.pack("<QQ", _VERSION, len(entries))
    for encoded, (_, kind, shape, body) in zip(names, entries, strict=True):
        head += struct.pack("<QQQQ", len(encoded), kind, len(shape), len(body))
    head += b"".join(names) + b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, _, shape, _ in entries)
    padding = -(len(head) + 8) % _ALIGNED
    path.write_bytes(head + struct.pack("<Q", padding) + bytes(padding) + b"".join(body for *_, body in entries))


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays by name, without pickle; ModelError for a damaged file, and for arrays of anything but numbers."""
    with reading(path, ".npz", Exception):  # whatever a broken header makes of Python's parser of literals
        if not path.stat().st_size:
            raise ValueError("it is empty")
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > _SMALL + _DEFLATED * path.stat().st_size:
                raise ValueError("its arrays are larger than such a file can hold")
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
                raise ValueError(f"{name!r:.80} holds no array of numbers")
        return arrays


def read_options(path: Path, raw: bytes | None = None) -> dict[str, Any]:
    """The options in a YAML file of Marian by name: texts, numbers, bools and lists of these; deeper ones are left out.

    `raw` are its bytes if they are part of another file. Raises ModelError if they cannot be read, are too long, or no
    options.
    """
    with reading(path, "options in YAML, lines `name: value`", yaml.YAMLError, RecursionError, ValueError):
        data = read_whole(path, ModelError) if raw is None else raw.rstrip(b"\0")
        if len(data) > _MOST_OPTIONS:
            raise ValueError(f"they have {len(data)} bytes; at most {_MOST_OPTIONS} are read")
        # The loader of texts; the one in C crashes on deep nesting.
        options = yaml.load(data.decode("utf-8", "replace"), Loader=yaml.BaseLoader)
        if not isinstance(options, dict):
            raise ValueError("they are others")
    typed = {name: _typed(value) for name, value in options.items() if isinstance(name, str)}
    return {name: value for name, value in typed.items() if value is not None}


def _typed(value: Any) -> Any:
    """The number or bool that a text of YAML stands for, or the text; lists item by item; None for what is deeper."""
    if isinstance(value, list):
        return [_typed(item) for item in value] if all(isinstance(item, str) for item in value) else None
    if not isinstance(value, str):
        return None
    if value in ("true", "false"):
        return value == "true"
    if re.fullmatch(r"-?[0-9]{1,18}\.[0-9]{1,18}", value):
        return float(value)
    return int(value) if re.fullmatch(r"-?[0-9]{1,18}", value) else value
