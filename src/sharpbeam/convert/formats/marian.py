"""The binary files of Marian (`marian-conv`; .bin): the arrays of a model.npz, plain or rounded to whole numbers.

Little-endian: the version 1; the number of arrays, and for each the lengths of its name, of its shape and of its bytes
with its type between (Marian's src/common/binary.cpp); the names, each with a final NUL; the shapes; the bytes up to
the first array; the arrays. Of the rounded types those for any processor are read, intgemm8 and intgemm16, in which
Firefox's models come: matrices are turned, embeddings are not, and behind the numbers stands their scale.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpbeam.errors import ModelError

Array = NDArray[Any]
_VERSION = 1
_PLAIN = {0x101: "<i1", 0x102: "<i2", 0x104: "<i4", 0x402: "<f2", 0x404: "<f4"}
_ROUNDED = {0x10001: "<i1", 0x10002: "<i2"}
_ALPHA = "_QuantMultA"  # the scale of a product's inputs, which are measured here as they come
_LEAST_SCALE = 1e-30  # below it numbers of 16 bits leave float32
_MOST_ARRAYS, _MOST_RANK, _MOST_NAME = 1 << 16, 8, 1 << 12


def is_marian_file(path: Path) -> bool:
    """Whether a file begins as Marian's do; models of CTranslate2 begin with another number of four bytes."""
    try:
        with path.open("rb") as file:
            return file.read(8) == struct.pack("<Q", _VERSION)
    except OSError:
        return False


def read_marian_file(path: Path) -> dict[str, Array]:
    """All arrays by name, matrices as model.npz has them; raises ModelError for a damaged file and for other types."""
    try:
        return _Reader(path, memoryview(path.read_bytes())).arrays()
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}.") from error
    except (ValueError, struct.error) as error:
        raise ModelError(f"{path} cannot be read as a binary model of Marian: {error}. Copy it again.") from error


class _Reader:
    """A place in the bytes of a file."""

    def __init__(self, path: Path, raw: memoryview) -> None:
        self._path, self._raw, self._place = path, raw, 0

    def arrays(self) -> dict[str, Array]:
        version, count = struct.unpack("<QQ", self._take(16))
        if version != _VERSION or count > _MOST_ARRAYS:
            raise ValueError(f"it has version {version} and {count} arrays")
        headers = [struct.unpack("<QQQQ", self._take(32)) for _ in range(count)]
        if any(name > _MOST_NAME or rank > _MOST_RANK for name, _, rank, _ in headers):
            raise ValueError("the name or the shape of an array is too long")
        names = [bytes(self._take(length)).rstrip(b"\0").decode("utf-8") for length, _, _, _ in headers]
        shapes = [struct.unpack(f"<{rank}i", self._take(4 * rank)) for _, _, rank, _ in headers]
        (gap,) = struct.unpack("<Q", self._take(8))
        self._take(gap)
        found: dict[str, Array] = {}
        for name, shape, (_, kind, _, length) in zip(names, shapes, headers, strict=True):
            body = self._take(length)
            if not name.endswith(_ALPHA):
                found[name] = self._array(name, kind, shape, body)
        return found

    def _array(self, name: str, kind: int, shape: tuple[int, ...], body: memoryview) -> Array:
        """One array; files are padded, so there may be more bytes than it needs."""
        if kind not in _PLAIN and kind not in _ROUNDED:
            raise ModelError(
                f"{self._path}: {name!r} has type {kind:#x}, packed for one kind of processor; give the model.npz that "
                "it was made from."
            )
        dtype = np.dtype(_PLAIN.get(kind) or _ROUNDED[kind])
        size = math.prod(shape)
        needed = size * dtype.itemsize + (4 if kind in _ROUNDED else 0)
        if min(shape, default=0) < 0 or needed > len(body):
            raise ValueError(f"{name!r} of shape {shape} has {len(body)} bytes")
        numbers = np.frombuffer(body, dtype, size)
        if kind in _PLAIN:
            return numbers.reshape(shape)
        (scale,) = struct.unpack_from("<f", body, size * dtype.itemsize)
        if len(shape) != 2 or not _LEAST_SCALE < scale < math.inf:
            raise ValueError(f"{name!r} of shape {shape} has the scale {scale}")
        values = numbers.astype(np.float32) / np.float32(scale)
        return values.reshape(shape) if "Wemb" in name else np.ascontiguousarray(values.reshape(shape[::-1]).T)

    def _take(self, size: int) -> memoryview:
        if size > len(self._raw) - self._place:
            raise ValueError(f"it ends where {size} bytes should follow byte {self._place}")
        self._place += size
        return self._raw[self._place - size : self._place]
