"""The weights of another program's model: named arrays, each to be taken once, so that nothing is left unread."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from sharpbeam.convert.formats.floats import widened
from sharpbeam.convert.formats.json import read_json
from sharpbeam.convert.formats.torch import read_torch
from sharpbeam.errors import ModelError
from sharpbeam.types import Floats

Array = NDArray[Any]
_KINDS = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "F64": "<f8"}
_MOST_SHARDS = 1000


class Weights:
    """Arrays by name, of `path`, which errors name."""

    def __init__(self, path: Path, arrays: Mapping[str, Array]) -> None:
        self._path, self._arrays = path, dict(arrays)
        self._taken: set[str] = set()

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def names(self) -> Iterable[str]:
        """All names."""
        return self._arrays.keys()

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of one array; raises ModelError where it is missing."""
        return self._find(name).shape

    def matrix_shape(self, name: str) -> tuple[int, int]:
        """The shape of one matrix; raises ModelError where it is missing, or has not two axes."""
        shape = self.shape(name)
        if len(shape) != 2:
            raise ModelError(f"{self._path}: tensor {name!r} has shape {shape}; it must have two axes.")
        return shape[0], shape[1]

    def take(self, name: str, *shape: int) -> Floats:
        """The array `name` as float32; raises ModelError where it is missing or has not this shape."""
        array = self._find(name)
        if array.dtype.kind != "f":
            raise ModelError(f"{self._path}: tensor {name!r} holds {array.dtype}; it must hold floats.")
        if array.shape != shape:
            raise ModelError(f"{self._path}: tensor {name!r} has shape {array.shape}; the config asks for {shape}.")
        self._taken.add(name)
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(array, np.float32)

    def ignore(self, *names: str) -> None:
        """Arrays that say nothing new, such as tables that follow from the config."""
        self._taken.update(names)

    def check_all_taken(self) -> None:
        """Raise ModelError for an array that nobody asked for: it belongs to a feature that we do not have."""
        left = sorted(self._arrays.keys() - self._taken)
        if left:
            raise ModelError(
                f"{self._path} has {len(left)} tensors that the config does not account for, such as {left[0]!r}; "
                f"the model has a feature that Sharpbeam lacks."
            )

    def _find(self, name: str) -> Array:
        if name not in self._arrays:
            raise ModelError(f"{self._path}: tensor {name!r} is missing; the model is incomplete, or of another kind.")
        return self._arrays[name]


def read_hugging_face_weights(folder: Path) -> Weights:
    """model.safetensors of `folder`, its shards, or pytorch_model.bin; the first that is there."""
    for name, read in (("model.safetensors", read_safetensors), ("pytorch_model.bin", _read_state)):
        if (folder / name).is_file():
            return Weights(folder / name, read(folder / name))
        if (folder / f"{name}.index.json").is_file():
            return Weights(folder / f"{name}.index.json", _read_shards(folder, f"{name}.index.json", read))
    raise ModelError(f"{folder} has neither model.safetensors nor pytorch_model.bin; give the folder of a whole model.")


def read_safetensors(path: Path) -> dict[str, Array]:
    """Views of the mapped file; bfloat16 becomes float32. Raises ModelError for a damaged file or for other dtypes."""
    try:
        with safe_open(path, framework="np") as file:  # checks that the header fits the file
            names = list(file.keys())
        raw = np.memmap(path, np.uint8, "r")
        start = 8 + int.from_bytes(raw[:8].tobytes(), "little")
        header = json.loads(raw[8:start].tobytes())
        return {name: _tensor(path, name, header[name], raw[start:]) for name in names}
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read as safetensors ({error}); copy the model again.") from error


def _tensor(path: Path, name: str, entry: Mapping[str, Any], raw: Array) -> Array:
    kind, (start, end) = entry["dtype"], entry["data_offsets"]
    if kind not in _KINDS:
        raise ModelError(f"{path}: tensor {name!r} holds {kind}; {', '.join(_KINDS)} are read.")
    array = np.frombuffer(raw[start:end], _KINDS[kind]) if end > start else np.empty(0, _KINDS[kind])
    return widened(array.reshape(entry["shape"]), "bfloat16" if kind == "BF16" else kind)


def _read_state(path: Path) -> dict[str, Array]:
    state = read_torch(path)
    if not isinstance(state, dict) or not all(
        isinstance(name, str) and isinstance(array, np.ndarray) for name, array in state.items()
    ):
        raise ModelError(f"{path} does not hold tensors by name; give the weights of a Hugging Face model.")
    return state


def _read_shards(folder: Path, index: str, read: Any) -> dict[str, Array]:
    """The tensors of all files that the index names, which lie beside it."""
    places = read_json(folder / index, 1 << 24).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(place, str) for place in places.values()):
        raise ModelError(f"{folder / index} must have a weight_map from tensors to files.")
    files = sorted(set(places.values()))
    if len(files) > _MOST_SHARDS or any(Path(file).name != file or file in ("", ".", "..") for file in files):
        raise ModelError(f"{folder / index} names files that do not lie beside it.")
    shards = {file: read(folder / file) for file in files}
    missing = [name for name, file in places.items() if name not in shards[file]]
    if missing:
        raise ModelError(f"{folder / places[missing[0]]} lacks the tensor {missing[0]!r} that {index} names.")
    return {name: shards[file][name] for name, file in places.items()}
