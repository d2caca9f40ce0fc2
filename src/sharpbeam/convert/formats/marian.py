"""Marian's binary model files (`marian-conv`; .bin): named arrays of floats or of quantized integers.

Layout, little-endian (Marian's src/common/binary.cpp): the version, 1; the number of arrays; for each array the length
of its name, its type, and the lengths of its shape and data; the names, each with a final NUL; the shapes; padding; the
data.

Quantized matrices (intgemm8, intgemm16) are transposed, embeddings ("Wemb") are not; the scale follows the integers,
and a value is integer / scale. Integers of 8 bits stay so; those of 16 bits become float32. Marian and its browsermt
branch, which Firefox's models come from, number these types differently; both are read. Matrices that are packed for
one kind of processor (FBGEMM's, and intgemm's for a register width) are refused. `*_QuantMultA`, the static scale of a
layer's input, is left out: activations are quantized by the largest value of each vector, which clips nothing.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np

from sharpbeam.convert.formats.weights import Stored
from sharpbeam.errors import ModelError
from sharpbeam.storage.tensors import Int8Matrix
from sharpbeam.text.lines import check_regular

_VERSION = 1
_PLAIN = {0x101: "<i1", 0x102: "<i2", 0x104: "<i4", 0x402: "<f2", 0x404: "<f4"}
_QUANTIZED = {0x4101: "<i1", 0x4102: "<i2", 0x10001: "<i1", 0x10002: "<i2"}  # browsermt's numbers, then Marian's
_INPUT_SCALE = "_QuantMultA"
_LEAST_SCALE = 1e-30  # below it the values of 16-bit integers leave float32
_MOST_ARRAYS, _MOST_RANK, _MOST_NAME = 1 << 16, 8, 1 << 12


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
    try:
        check_regular(path)
        return _MarianFile(path, memoryview(path.read_bytes())).arrays()
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}.") from error
    except (ValueError, struct.error) as error:
        raise ModelError(f"{path} cannot be read as a binary model of Marian: {error}. Copy it again.") from error


class _MarianFile:
    """The bytes of a file, read from the front."""

    def __init__(self, path: Path, raw: memoryview) -> None:
        self._path, self._raw, self._offset = path, raw, 0

    def arrays(self) -> dict[str, Stored]:
        version, count = struct.unpack("<QQ", self._take(16))
        if version != _VERSION or count > _MOST_ARRAYS:
            raise ValueError(f"it has version {version} and {count} arrays")
        headers = [struct.unpack("<QQQQ", self._take(32)) for _ in range(count)]
        if any(name > _MOST_NAME or rank > _MOST_RANK for name, _, rank, _ in headers):
            raise ValueError("the name or the shape of an array is too long")
        names = [bytes(self._take(length)).rstrip(b"\0").decode("utf-8") for length, _, _, _ in headers]
        shapes = [struct.unpack(f"<{rank}i", self._take(4 * rank)) for _, _, rank, _ in headers]
        (padding,) = struct.unpack("<Q", self._take(8))
        self._take(padding)
        arrays: dict[str, Stored] = {}
        for name, shape, (_, kind, _, length) in zip(names, shapes, headers, strict=True):
            data = self._take(length)
            if not name.endswith(_INPUT_SCALE):
                arrays[name] = self._array(name, kind, shape, data)
        return arrays

    def _array(self, name: str, kind: int, shape: tuple[int, ...], data: memoryview) -> Stored:
        """One array; files are padded, so `data` may be longer than the array needs."""
        is_quantized, code = kind in _QUANTIZED, (_PLAIN | _QUANTIZED).get(kind)
        if code is None:
            raise ModelError(
                f"{self._path}: {name!r} has type {kind:#x}, which is unknown or packed for one kind of processor; "
                "convert the model.npz that it was made from, or a .bin written with --gemm-type intgemm8."
            )
        dtype, size = np.dtype(code), math.prod(shape)
        byte_count = size * dtype.itemsize + (4 if is_quantized else 0)
        if min(shape, default=0) < 0 or byte_count > len(data):
            raise ValueError(f"{name!r} of shape {shape} has {len(data)} bytes")
        numbers = np.frombuffer(data, dtype, size)
        if not is_quantized:
            return numbers.reshape(shape)
        (scale,) = struct.unpack_from("<f", data, size * dtype.itemsize)
        if len(shape) != 2 or not _LEAST_SCALE < scale < math.inf:
            raise ValueError(f"{name!r} of shape {shape} has the scale {scale}")
        is_embedding = "Wemb" in name
        rows = numbers.reshape(shape if is_embedding else shape[::-1])
        matrix = Int8Matrix(rows, np.full((1, 1), scale, np.float32))
        matrix = matrix if is_embedding else matrix.T
        return matrix if dtype.itemsize == 1 else matrix.values()

    def _take(self, size: int) -> memoryview:
        if size > len(self._raw) - self._offset:
            raise ValueError(f"it ends early: {size} bytes should follow byte {self._offset}")
        self._offset += size
        return self._raw[self._offset - size : self._offset]
