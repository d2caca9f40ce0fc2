"""The weights of a Hugging Face folder: safetensors or PyTorch's files, whole or in shards.

Files that `torch.save` wrote are read by PyTorch's own reader in its mode that runs nothing of a file. PyTorch before
2.6 ran code even in that mode (CVE-2025-32434), so it is refused.
"""

from __future__ import annotations

import io
import pickletools
import re
import warnings
import zipfile
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError

from sharpbeam.convert.formats.files import reading, reason_of
from sharpbeam.convert.formats.weights import BFloat16, Stored, Weights
from sharpbeam.errors import InputError, ModelError
from sharpbeam.storage.tensors import tensor_entries
from sharpbeam.text.json import read_json

_DTYPES = ("F32", "F16", "BF16", "F64")
_MOST_SHARDS = 1000
_SAFE_SINCE = (2, 6)
_OLD_PICKLES = 5  # a magic number, a version, the system, the object, and the names of the tensors' bytes
# An operation makes an object of some 100 bytes at most, a tensor takes 60 of them.
_MOST_PICKLED, _MOST_OPERATIONS, _FEW_OPERATIONS = 1 << 25, 2_000_000, 100_000


def read_hugging_face_weights(folder: Path) -> Weights:
    """model.safetensors of `folder`, its shards, or pytorch_model.bin; the first that is there."""
    for name, read in (("model.safetensors", read_safetensors), ("pytorch_model.bin", read_torch)):
        if (folder / name).is_file():
            return Weights(folder / name, read(folder / name))
        if (folder / f"{name}.index.json").is_file():
            return Weights(folder / f"{name}.index.json", _read_shards(folder, f"{name}.index.json", read), folder)
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


def read_torch(path: Path) -> dict[str, Stored]:
    """The tensors of a file of `torch.save` by name.

    Raises ModelError, saying why, for anything else and for a damaged file; InputError without PyTorch 2.6 or newer.
    """
    try:
        import torch
    except ModuleNotFoundError as error:
        raise InputError(
            f"{path} is a file of PyTorch, which is not installed; run: pip install 'sharpbeam[train]', or give the "
            "model as safetensors."
        ) from error
    version = tuple(int(number) for number in re.findall(r"\d+", torch.__version__)[:2])
    if version < _SAFE_SINCE:
        raise InputError(f"PyTorch is {torch.__version__}; it must be 2.6 or newer to read {path} safely: update it.")
    # An exception is whatever a broken pickle makes of its reader.
    with reading(path, "a file of PyTorch", Exception, reason=_reason), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about pickles that it may refuse, with advice for developers
        _check_pickles(path)
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
        if not isinstance(content, Mapping) or not all(
            isinstance(name, str) and isinstance(tensor, torch.Tensor) for name, tensor in content.items()
        ):
            raise ModelError(f"{path} does not hold tensors by name; give the weights of a model.")
        return {name: _array(tensor.detach()) for name, tensor in content.items()}


def _check_pickles(path: Path) -> None:
    """Raise ValueError for pickles of more than names and shapes need: each operation of one can make an object.

    Files of PyTorch before 1.6 are five pickles, one after another, before the first tensor's bytes; newer ones are
    archives with one.
    """
    most = min(_MOST_OPERATIONS, _FEW_OPERATIONS + path.stat().st_size // 16)
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            starts = [(io.BytesIO(file.read(_MOST_PICKLED)), _OLD_PICKLES)]
    else:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith("data.pkl")]
            starts = [(io.BytesIO(archive.open(name).read(_MOST_PICKLED)), 1) for name in names]
    for pickled, count in starts:
        operations = chain.from_iterable(pickletools.genops(pickled) for _ in range(count))
        if any(number >= most for number, _ in enumerate(operations)):
            raise ValueError(f"its pickle has more than {most} operations, too many for tensors of that size")


def _array(tensor: Any) -> Stored:
    import torch

    return BFloat16(tensor.view(torch.uint16).numpy()) if tensor.dtype == torch.bfloat16 else tensor.numpy()


def _reason(error: Exception) -> str:
    """The first words of an error that matter to a user."""
    if name := re.search(r"GLOBAL ([\w.]+)", str(error)):
        return f"it names {name[1][:80]}, which no file of plain tensors needs; it is refused"
    message = str(error).partition("Check the documentation of torch.load")[0]
    return reason_of(ValueError(message.partition("WeightsUnpickler error: ")[2] or message or type(error).__name__))
