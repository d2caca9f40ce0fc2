"""The file model.bin of CTranslate2: named variables, and other names for some of them.

Little-endian: the version of the format; the name and revision of the model's kind; the number of variables, and for
each its name, rank, sizes, type and bytes; the number of aliases, and for each its name and that of the variable. A
text is its length with a final NUL, and the bytes. Arrays are views of the mapped file.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from sharpbeam.convert.formats.files import Bytes, reading
from sharpbeam.convert.formats.weights import BFloat16, Stored

_VERSION = 6
_TYPES = ("float32", "int8", "int16", "int32", "float16", "bfloat16")
_MOST_RANK = 8


def read_model_file(path: Path) -> tuple[str, dict[str, Stored]]:
    """The kind of a model.bin (TransformerSpec and others), and its variables.

    Raises ModelError if it is damaged or of another version.
    """
    with reading(path, "a model of CTranslate2", ValueError):
        raw = Bytes(path)
        (version,) = raw.numbers("<I")
        if version != _VERSION:
            advice = "convert its original again by CTranslate2 3 or newer"
            raise ValueError(f"its version is {version}, and {_VERSION} is read; {advice}")
        kind, _ = _text(raw), raw.numbers("<I")
        variables = dict(_variable(raw) for _ in range(_count(raw)))
        for _ in range(_count(raw)):
            alias, name = _text(raw), _text(raw)
            if name not in variables:
                raise ValueError(f"{alias!r} is an alias of {name!r}, which is not there")
            variables[alias] = variables[name]
            if f"{name}_scale" in variables:  # an alias has the scale of its variable
                variables.setdefault(f"{alias}_scale", variables[f"{name}_scale"])
        if len(raw):
            raise ValueError("there are bytes after its end")
        return kind, variables


def _variable(raw: Bytes) -> tuple[str, Stored]:
    name, (rank,) = _text(raw), raw.numbers("<B")
    if rank > _MOST_RANK:
        raise ValueError(f"{name!r} has {rank} axes")
    shape = raw.numbers(f"<{rank}I")
    number, size = raw.numbers("<BI")
    if number >= len(_TYPES):
        raise ValueError(f"{name!r} has the unknown type {number}")
    kind = _TYPES[number]
    dtype = np.dtype("uint16" if kind == "bfloat16" else kind).newbyteorder("<")
    if size != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{name!r} of shape {shape} has {size} bytes")
    array = (np.frombuffer(raw.take(size), dtype) if size else np.empty(0, dtype)).reshape(shape)
    return name, BFloat16(array) if kind == "bfloat16" else array


def _count(raw: Bytes) -> int:
    (count,) = raw.numbers("<I")
    if count > len(raw):  # each takes some bytes
        raise ValueError(f"its header has {count} variables, more than bytes")
    return int(count)


def _text(raw: Bytes) -> str:
    text = raw.take(*raw.numbers("<H")).tobytes()
    if not text.endswith(b"\0"):
        raise ValueError("a name does not end as it should")
    return text[:-1].decode("utf-8")
