"""A model folder on disk: config.json, model.safetensors and vocabularies, written beside and renamed, never unpickled."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from quickbeam.errors import ModelError
from quickbeam.models.facts import from_facts
from quickbeam.models.recurrent.config import RecurrentConfig
from quickbeam.models.recurrent.tensors import tensor_shapes

FORMAT_VERSION = 1
Tensors = dict[str, NDArray[Any]]


def save_model(
    folder: Path,
    config: RecurrentConfig,
    tensors: Mapping[str, NDArray[Any]],
    vocabularies: Mapping[str, bytes],
    card: str,
) -> None:
    """Write a whole model folder beside `folder`, then rename it into place (an old one is replaced).

    `vocabularies` maps file names (source.spm, target.spm) to their bytes; `card` is the README.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        facts = {"format_version": FORMAT_VERSION, "architecture": "recurrent", **dataclasses.asdict(config)}
        (beside / "config.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        save_file({name: np.ascontiguousarray(t) for name, t in tensors.items()}, beside / "model.safetensors")
        for name, data in vocabularies.items():
            (beside / name).write_bytes(data)
        (beside / "README.md").write_text(card, encoding="utf-8")
        beside.chmod(0o755)
        if folder.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old.", dir=folder.parent))
            os.replace(folder, old / "model")
            os.replace(beside, folder)
            shutil.rmtree(old)
        else:
            os.replace(beside, folder)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def read_config(folder: Path) -> RecurrentConfig:
    """The facts in `folder`/config.json; anything missing, unknown or mistyped raises ModelError by name."""
    path = folder / "config.json"
    if not folder.is_dir():
        raise ModelError(f"there is no model folder {folder}; give a folder with a config.json or a bundled name.")
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}. Is {folder} a Quickbeam model?") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ModelError(f"{path} is not JSON: {error}.") from error
    if not isinstance(facts, dict):
        raise ModelError(f"{path} must hold a JSON object.")
    version, architecture = facts.pop("format_version", None), facts.pop("architecture", None)
    if version != FORMAT_VERSION:
        raise ModelError(f"{path}: format_version is {version!r}; this Quickbeam reads {FORMAT_VERSION}.")
    if architecture != "recurrent":
        raise ModelError(f"{path}: architecture is {architecture!r}; this Quickbeam reads 'recurrent'.")
    try:
        return from_facts(RecurrentConfig, facts)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None


def read_tensors(folder: Path, config: RecurrentConfig) -> Tensors:
    """The weights in `folder` as float32, checked by name, shape and finiteness against `config`."""
    path = folder / "model.safetensors"
    try:
        found = load_file(path)
    except FileNotFoundError as error:
        raise ModelError(f"{path} is missing; the model folder is incomplete.") from error
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{path} cannot be read as safetensors ({error}); copy or convert the model again.") from error
    wanted = tensor_shapes(config)
    for name in sorted(wanted.keys() | found.keys()):
        if name not in found:
            raise ModelError(f"{path}: tensor {name!r} is missing.")
        if name not in wanted:
            raise ModelError(f"{path}: unknown tensor {name!r}.")
        tensor = found[name]
        if tensor.shape != wanted[name]:
            raise ModelError(f"{path}: tensor {name!r} has shape {tensor.shape}; the config asks for {wanted[name]}.")
        if tensor.dtype not in (np.float16, np.float32):
            raise ModelError(f"{path}: tensor {name!r} is {tensor.dtype}; it must be float16 or float32.")
        if not np.isfinite(tensor).all():
            raise ModelError(f"{path}: tensor {name!r} holds a value that is not finite.")
    return {name: np.ascontiguousarray(tensor, dtype=np.float32) for name, tensor in found.items()}
