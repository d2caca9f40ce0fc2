"""The weights of another program's model: named arrays, of which none may stay unread."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpbeam.errors import ModelError
from sharpbeam.storage.tensors import Int8Matrix
from sharpbeam.types import Floats

Array = NDArray[Any]


@dataclass(frozen=True)
class BFloat16:
    """An array of bfloat16, which NumPy lacks, by its bits."""

    bits: NDArray[np.uint16]

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self.bits.shape

    def values(self) -> Floats:
        """The same numbers as float32."""
        return (self.bits.astype(np.uint32) << 16).view(np.float32)


Stored = Array | BFloat16 | Int8Matrix
Tensor = Floats | Int8Matrix
# Values that may be taken: a file of int8 has one for each byte, and embeddings may serve three times. Names that share
# one tensor could make gigabytes of a small file.
_SMALL, _EXPANDED = 1 << 24, 8


class Weights:
    """Arrays by name, of `path`, which errors name, or of the files of `folder`."""

    def __init__(self, path: Path, arrays: Mapping[str, Stored], folder: Path | None = None) -> None:
        self.path, self.arrays = path, dict(arrays)
        self._used: set[str] = set()
        self._budget = _SMALL + _EXPANDED * _size(folder or path)

    def __contains__(self, name: object) -> bool:
        return name in self.arrays

    def find(self, name: str) -> Stored:
        """The array `name` as it is; raises ModelError if it is missing."""
        if name not in self.arrays:
            raise ModelError(f"{self.path}: tensor {name!r} is missing; the model is incomplete, or of another kind.")
        return self.arrays[name]

    def matrix_shape(self, name: str) -> tuple[int, int]:
        """The shape of one matrix; raises ModelError if it is missing, or has not two axes."""
        shape = self.find(name).shape
        if len(shape) != 2:
            raise ModelError(f"{self.path}: tensor {name!r} has shape {shape}; it must have two axes.")
        return shape[0], shape[1]

    def take(self, name: str, *shape: int) -> Floats:
        """The array `name` as float32; ModelError if it is missing, no floats, or not of a `shape` that is named."""
        return values(self.tensor(name, *shape))

    def tensor(self, name: str, *shape: int) -> Tensor:
        """The array `name` as `take` has it, but int8 with scales stays so."""
        array = self.find(name)
        if array.shape != (shape or array.shape):
            raise ModelError(f"{self.path}: tensor {name!r} has shape {array.shape}; it must have {shape}.")
        self._used.add(name)
        self._budget -= math.prod(array.shape)
        if self._budget < 0:
            raise ModelError(f"{self.path}: its tensors are much larger than the file; too many share their bytes.")
        if isinstance(array, Int8Matrix):
            return array
        if isinstance(array, BFloat16):
            return array.values()
        if array.dtype.kind != "f":
            raise ModelError(f"{self.path}: tensor {name!r} holds {array.dtype}; it must hold floats.")
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(array, np.float32)

    def number(self, name: str, default: float) -> float:
        """The array `name` of one number, whatever its type; `default` if it is missing."""
        if name not in self.arrays:
            return default
        array = self.arrays[name]
        if not isinstance(array, np.ndarray) or array.size != 1 or array.dtype.kind not in "fiub":
            raise ModelError(f"{self.path}: {name} has shape {array.shape}; it must be one number.")
        self._used.add(name)
        number = float(array.reshape(-1)[0])
        if not math.isfinite(number):
            raise ModelError(f"{self.path}: {name} is {number}; it must be finite.")
        return number

    def ignore(self, *names: str) -> None:
        """Leave arrays out that hold nothing new, such as tables that follow from the config."""
        self._used.update(names)

    def check_all_taken(self) -> None:
        """Raise ModelError for an array that was not taken: it belongs to a feature that we do not have."""
        rest = sorted(self.arrays.keys() - self._used)
        if rest:
            raise ModelError(
                f"{self.path} has {len(rest)} tensors that the config does not account for, such as {rest[0]!r}; "
                f"the model has a feature that Sharpbeam lacks."
            )


def _size(path: Path) -> int:
    """Bytes of a file, or of the files in a folder."""
    files = path.iterdir() if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


class Tensors(dict[str, Tensor]):
    """Our tensors by name, filled from `weights`."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.weights = weights

    def add(self, name: str, theirs: Sequence[str], shape: Sequence[int]) -> None:
        """Add the tensor of `shape`: one of theirs, or several whose rows follow each other."""
        rows = shape[0] // len(theirs)
        self[name] = joined([self.weights.tensor(part, rows, *shape[1:]) for part in theirs])

    def add_embeddings(
        self,
        source: Sequence[str],
        target: Sequence[str],
        output: Sequence[str],
        bias: str = "",
        shapes: Sequence[tuple[int, int]] | None = None,
    ) -> dict[str, Any]:
        """Add both embeddings and the output layer, each matrix once; returns their part of a config.

        Each matrix is the first of its names that is there; the bias may be a row, and is zeros if it is not there.
        `shapes` are those of source and target, if the config has them. Raises ModelError if a matrix is missing or of
        another shape.
        """
        w = self.weights
        names = [next((name for name in choices if name in w), choices[0]) for choices in (source, target, output)]
        shapes = shapes or [w.matrix_shape(name) for name in names[:2]]
        theirs = dict(zip(names, [*shapes, shapes[1]], strict=True))
        matrices = {name: w.tensor(name, *shape) for name, shape in theirs.items()}
        embedding = matrices[names[1]]
        shared, tied = (_equal(matrices[name], embedding) for name in (names[0], names[2]))
        self["target_embedding"] = embedding
        self |= {} if shared else {"source_embedding": matrices[names[0]]}
        self |= {} if tied else {"output_weight": matrices[names[2]]}
        size = shapes[1][0]
        row = (1, size) if bias in w and len(w.find(bias).shape) > 1 else (size,)
        self["output_bias"] = w.take(bias, *row).reshape(-1) if bias in w else np.zeros(size, np.float32)
        sizes = {"source_vocab_size": shapes[0][0], "target_vocab_size": shapes[1][0], "hidden_dim": shapes[1][1]}
        return {**sizes, "shared_embedding": shared, "tied_output": tied}


def _equal(one: Tensor, other: Tensor) -> bool:
    if isinstance(one, Int8Matrix) and isinstance(other, Int8Matrix):  # as they are: float32 takes four times as much
        return np.array_equal(one.integers, other.integers) and np.array_equal(one.scale, other.scale)
    return one is other or np.array_equal(values(one), values(other))


def joined(parts: Sequence[Tensor]) -> Tensor:
    """Matrices with the same columns as one, their rows one after another; of int8 if all parts are."""
    rows = [part.by_rows() if isinstance(part, Int8Matrix) else None for part in parts]
    quantized = [part for part in rows if part is not None]
    if len(quantized) == len(parts):
        scale = np.concatenate([part.scale for part in quantized])
        return Int8Matrix(np.concatenate([part.integers for part in quantized]), scale)
    floats = [values(part) for part in parts]
    return np.ascontiguousarray(floats[0] if len(floats) == 1 else np.concatenate(floats))


def values(tensor: Tensor) -> Floats:
    """A tensor as float32."""
    return tensor.values() if isinstance(tensor, Int8Matrix) else tensor


def with_zero_row(tensor: Tensor, row: int) -> Tensor:
    """A matrix with one more row of zeros, before `row`."""
    if not isinstance(tensor, Int8Matrix):
        return np.insert(tensor, row, np.float32(0.0), axis=0)
    whole = tensor.by_rows()
    if whole is None:
        return with_zero_row(tensor.values(), row)
    return Int8Matrix(np.insert(whole.integers, row, 0, axis=0), np.insert(whole.scale, row, np.float32(1.0), axis=0))
