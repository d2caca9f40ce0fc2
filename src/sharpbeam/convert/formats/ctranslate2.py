"""The file model.bin of CTranslate2: named variables, and other names for some of them.

Little-endian: the version of the format; the name and revision of the model's kind; the number of variables, and for
each its name, rank, sizes, type and bytes; the number of aliases, and for each its name and that of the variable. A
text is its length with a final NUL, and the bytes. Arrays are views of the mapped file; each size is checked against
the rest of the file before memory is taken.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sharpbeam.convert.formats.weights import BFloat16, Stored
from sharpbeam.errors import ModelError
from sharpbeam.text.lines import check_regular

_VERSION = 6
_TYPES = ("float32", "int8", "int16", "int32", "float16", "bfloat16")
_MOST_RANK = 8


@dataclass(frozen=True)
class ModelFile:
    """The content of a model.bin."""

    kind: str  # TransformerSpec and others
    variables: dict[str, Stored]


def read_model_file(path: Path) -> ModelFile:
    """Read model.bin; raises ModelError if it is damaged or of another version."""
    try:
        check_regular(path)
        return _ModelBin(np.memmap(path, np.uint8, "r")).model()
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}.") from error
    except (ValueError, struct.error, UnicodeDecodeError) as error:
        raise ModelError(
            f"{path} cannot be read as a model of CTranslate2: {error}. Copy or convert it again."
        ) from error


class _ModelBin:
    """The bytes of a file, read from the front."""

    def __init__(self, raw: NDArray[np.uint8]) -> None:
        self._raw, self._offset = raw, 0

    def model(self) -> ModelFile:
        version = self._number("<I")
        if version != _VERSION:
            advice = "convert its original again by CTranslate2 3 or newer"
            raise ValueError(f"its version is {version}, and {_VERSION} is read; {advice}")
        kind, _ = self._text(), self._number("<I")
        variables = dict(self._variable() for _ in range(self._count()))
        for _ in range(self._count()):
            alias, name = self._text(), self._text()
            if name not in variables:
                raise ValueError(f"{alias!r} is an alias of {name!r}, which is not there")
            variables[alias] = variables[name]
            if f"{name}_scale" in variables:  # an alias has the scale of its variable
                variables.setdefault(f"{alias}_scale", variables[f"{name}_scale"])
        if self._offset != len(self._raw):
            raise ValueError("there are bytes after its end")
        return ModelFile(kind, variables)

    def _variable(self) -> tuple[str, Stored]:
        name, rank = self._text(), self._number("<B")
        if rank > _MOST_RANK:
            raise ValueError(f"{name!r} has {rank} axes")
        shape = tuple(self._number("<I") for _ in range(rank))
        number, size = self._number("<B"), self._number("<I")
        if number >= len(_TYPES):
            raise ValueError(f"{name!r} has the unknown type {number}")
        kind = _TYPES[number]
        dtype = np.dtype("uint16" if kind == "bfloat16" else kind).newbyteorder("<")
        if size != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"{name!r} of shape {shape} has {size} bytes")
        raw = self._bytes(size)
        array = np.frombuffer(raw, dtype) if size else np.empty(0, dtype)
        array = array.reshape(shape)
        return name, BFloat16(array) if kind == "bfloat16" else array

    def _count(self) -> int:
        count = self._number("<I")
        if count > len(self._raw):  # each takes some bytes
            raise ValueError(f"its header has {count} variables, more than bytes")
        return count

    def _number(self, layout: str) -> int:
        (value,) = struct.unpack(layout, self._bytes(struct.calcsize(layout)).tobytes())
        return int(value)

    def _text(self) -> str:
        raw = self._bytes(self._number("<H")).tobytes()
        if not raw.endswith(b"\0"):
            raise ValueError("a name does not end as it should")
        return raw[:-1].decode("utf-8")

    def _bytes(self, count: int) -> NDArray[np.uint8]:
        end = self._offset + count
        if end > len(self._raw):
            raise ValueError(f"it ends at byte {len(self._raw)}, in the middle of something")
        raw = self._raw[self._offset : end]
        self._offset = end
        return raw
