"""Safetensors files: header, views of the tensors, and matrices of int8 with a scale for each row.

A quantized matrix `name` is stored as I8 [rows, columns], with `name.scale`, F32 [rows]; a value is integer / scale.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from sharpbeam.models.config import SCALE
from sharpbeam.types import Floats

# BF16: its bits
DTYPES = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "BF16": "<u2", "I8": "|i1", "I32": "<i4", "I64": "<i8"}


@dataclass(frozen=True)
class Int8Matrix:
    """A matrix of which each value is integer / scale."""

    integers: NDArray[Any]  # [rows, columns], of int8
    scale: Floats  # [rows, 1], [1, columns] or [1, 1]

    @classmethod
    def quantized(cls, matrix: Floats) -> Int8Matrix:
        """The nearest one to `matrix` [rows, columns]: the largest value of each row becomes 127, less than 1e-20 0."""
        largest = np.abs(matrix).max(axis=1, keepdims=True, initial=0.0)
        scale = np.divide(127, np.where(largest < 1e-20, 127, largest), dtype=np.float32)
        with np.errstate(invalid="ignore"):  # save_model refuses the scale of what is not finite
            return cls(np.rint(matrix * scale).astype(np.int8), scale)

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return self.integers.shape

    @property
    def size(self) -> int:
        """The number of values."""
        return self.integers.size

    @property
    def T(self) -> Int8Matrix:  # noqa: N802 (NumPy's name)
        """The matrix with rows and columns exchanged."""
        return Int8Matrix(self.integers.T, self.scale.T)

    def __getitem__(self, rows: Any) -> Int8Matrix:
        return Int8Matrix(self.integers[rows], self.scale[rows] if len(self.scale) > 1 else self.scale)

    def values(self) -> Floats:
        """The matrix as float32, C-contiguous."""
        values = self.integers.astype(np.float32, order="C")
        with np.errstate(all="ignore"):  # a scale of a damaged file; values that are not finite are refused later
            values /= self.scale
        return values

    def by_rows(self) -> Int8Matrix | None:
        """The same with a scale for each row [rows, 1]; None if the columns have scales of their own."""
        if self.scale.shape[1] > 1:
            return None
        return Int8Matrix(self.integers, np.broadcast_to(self.scale, (len(self.integers), 1)))


@dataclass(frozen=True)
class TensorEntry:
    """The place of a tensor in a file."""

    dtype: str
    shape: tuple[int, ...]
    begin: int  # bytes from the beginning of the file
    end: int

    def view(self, raw: NDArray[np.uint8]) -> NDArray[Any]:
        """The tensor in the bytes `raw` of the whole file; its dtype must be one of DTYPES."""
        dtype = np.dtype(DTYPES[self.dtype])
        if self.begin == self.end:
            return np.empty(self.shape, dtype)
        return np.frombuffer(raw[self.begin : self.end], dtype).reshape(self.shape)


def tensor_entries(path: Path) -> dict[str, TensorEntry]:
    """All tensors of a file by name; raises SafetensorError or OSError for one that is damaged."""
    with safe_open(path, framework="np"):  # checks that the header is sound, and fits the file
        pass
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    return {
        name: TensorEntry(entry["dtype"], tuple(entry["shape"]), *(8 + size + at for at in entry["data_offsets"]))
        for name, entry in header.items()
    }


def save_tensors(
    path: Path, tensors: Mapping[str, NDArray[Any] | Int8Matrix], metadata: dict[str, str] | None = None
) -> None:
    """Write a file with the mode of others (umask); a matrix of int8 as its integers and the scale of each row."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, Int8Matrix):
            arrays[name] = tensor
        elif (rows := tensor.by_rows()) is not None:
            arrays |= {name: rows.integers, name + SCALE: rows.scale[:, 0]}
        else:
            arrays[name] = tensor.values()
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path, metadata)
    except SafetensorError as error:  # a full disk
        raise OSError(str(error)) from error
    path.chmod(mode)  # safetensors makes it private
