"""The weights of a Hugging Face folder: safetensors or PyTorch's files, whole or in shards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from safetensors import SafetensorError

from sharpbeam.convert.formats.files import reading
from sharpbeam.convert.formats.torch import read_torch
from sharpbeam.convert.formats.weights import BFloat16, Stored, Weights
from sharpbeam.errors import ModelError
from sharpbeam.storage.tensors import tensor_entries
from sharpbeam.text.json import read_json

_DTYPES = ("F32", "F16", "BF16", "F64")
_MOST_SHARDS = 1000


def read_hugging_face_weights(folder: Path) -> Weights:
    """model.safetensors of `folder`, its shards, or pytorch_model.bin; the first that is there."""
    for name, read in (("model.safetensors", read_safetensors), ("pytorch_model.bin", read_torch)):
        if (folder / name).is_file():
            return Weights(folder / name, read(folder / name))
        if (folder / f"{name}.index.json").is_file():
            return Weights(folder / f"{name}.index.json", _read_shards(folder, f"{name}.index.json", read))
    raise ModelError(f"{folder} has neither model.safetensors nor pytorch_model.bin; give the folder of a whole model.")


def read_safetensors(path: Path) -> dict[str, Stored]:
    """Views of the mapped file. Raises ModelError for a damaged file or for other dtypes."""
    damage = SafetensorError, ValueError, KeyError, TypeError, RecursionError
    with reading(path, "safetensors", *damage):
        entries, raw = tensor_entries(path), np.memmap(path, np.uint8, "r")
        for name, entry in entries.items():
            if entry.dtype not in _DTYPES:
                raise ModelError(f"{path}: tensor {name!r} holds {entry.dtype}; {', '.join(_DTYPES)} are read.")
        views = {name: entry.view(raw) for name, entry in entries.items()}
        return {name: BFloat16(view) if entries[name].dtype == "BF16" else view for name, view in views.items()}


def _read_shards(folder: Path, index: str, read: Callable[[Path], dict[str, Stored]]) -> dict[str, Stored]:
    """The tensors of all files that the index names, which must lie next to it."""
    places = read_json(folder / index, 1 << 24).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(place, str) for place in places.values()):
        raise ModelError(f"{folder / index} must have a weight_map from tensors to files.")
    files = sorted(set(places.values()))
    if len(files) > _MOST_SHARDS or any(Path(file).name != file or file in ("", ".", "..") for file in files):
        raise ModelError(f"{folder / index} names files that do not lie next to it.")
    shards = {file: read(folder / file) for file in files}
    absent = [name for name, file in places.items() if name not in shards[file]]
    if absent:
        raise ModelError(f"{folder / places[absent[0]]} lacks the tensor {absent[0]!r} that {index} names.")
    return {name: shards[file][name] for name, file in places.items()}
