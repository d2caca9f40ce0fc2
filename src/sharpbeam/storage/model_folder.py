"""A model folder on disk: config.json, model.safetensors, vocabularies; written beside and renamed, never unpickled."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import mmap
import reprlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from sharpbeam import _core
from sharpbeam.errors import ModelError
from sharpbeam.models.config import from_facts
from sharpbeam.models.registry import Config, architecture_of, find_architecture
from sharpbeam.storage.atomic import replacing
from sharpbeam.storage.cache import file_state
from sharpbeam.storage.checked import known_digest, remember

FORMAT_VERSION = 1
WEIGHTS = "model.safetensors"
CONFIG_LIMIT = 1 << 16  # bytes; a real config.json has about 700
DIGEST = "weights_sha256"  # key of config.json; a folder without it is read unchecked
DECODING = "decoding"  # key of config.json: the model's own options of a decoding run
_AT_ONCE = 1 << 20  # values that are looked at together
Tensors = dict[str, NDArray[Any]]
FOREIGN = "If {} is a model of another program, convert it first: sharpbeam convert."


class MappedTensors(Tensors):
    """Tensors that may be views of the pages of a file, which nobody can write to."""

    def __init__(self, tensors: Mapping[str, NDArray[Any]], pages: mmap.mmap | None = None) -> None:
        super().__init__(tensors)
        self.pages = pages

    def forget(self) -> None:
        """Give all pages back: one that is looked at again is read again. What is packed does so for its own."""
        if self.pages is not None and hasattr(mmap, "MADV_DONTNEED"):
            self.pages.madvise(mmap.MADV_DONTNEED)


def save_model(
    folder: Path,
    config: Config,
    tensors: Mapping[str, NDArray[Any]],
    vocabularies: Mapping[str, bytes],
    card: str,
    decoding: Mapping[str, Any] | None = None,
    finish: Callable[[Path], None] | None = None,
) -> None:
    """Write a whole model folder next to `folder`, then rename it into place (an old one is replaced).

    `vocabularies` maps file names (source.spm, target.spm; vocab.json) to their bytes; `card` is the README; `decoding`
    are the model's own options of a decoding run, by name; `finish` writes further files into the new folder.
    Raises ModelError for a weight that is not finite and for a config that is too long, since such a folder could not
    be read again.
    """
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise ModelError(
                f"cannot save {folder}: tensor {name!r} holds a value that is not finite in {tensor.dtype}."
            )
    with replacing(folder) as beside:
        weights = beside / WEIGHTS
        save_file({name: np.ascontiguousarray(t) for name, t in tensors.items()}, weights)
        weights.chmod(0o644)  # safetensors makes it private
        facts = {"format_version": FORMAT_VERSION, "architecture": architecture_of(config).name}
        facts |= dataclasses.asdict(config)
        if decoding:
            facts[DECODING] = dict(decoding)
        facts[DIGEST] = _digest(weights)
        text = json.dumps(facts, indent=2) + "\n"
        if len(text) > CONFIG_LIMIT:
            raise ModelError(
                f"cannot save {folder}: its config.json would have {len(text)} bytes, and at most {CONFIG_LIMIT} are "
                "read; have fewer suppressed_ids (bad_words_ids of Hugging Face) or languages."
            )
        (beside / "config.json").write_text(text, encoding="utf-8")
        for name, data in vocabularies.items():
            (beside / name).write_bytes(data)
        (beside / "README.md").write_text(card, encoding="utf-8")
        if finish is not None:
            finish(beside)


def read_config(folder: Path) -> Config:
    """The facts in `folder`/config.json; anything missing, unknown or mistyped raises ModelError by name."""
    path, facts = folder / "config.json", _read_facts(folder)
    facts.pop(DIGEST, None)
    facts.pop(DECODING, None)
    version, architecture = facts.pop("format_version", None), facts.pop("architecture", None)
    if type(version) is not int or version != FORMAT_VERSION:
        other = f" {FOREIGN.format(folder)}" if version is None else ""
        raise ModelError(f"{path}: format_version is {version!r}; this Sharpbeam reads {FORMAT_VERSION}.{other}")
    try:
        return from_facts(find_architecture(architecture).config, facts)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None


def read_decoding(folder: Path) -> dict[str, Any]:
    """The model's own options of a decoding run, by name; most models have none. Raises ModelError for no table."""
    found = _read_facts(folder).get(DECODING, {})
    if not isinstance(found, dict):
        raise ModelError(f"{folder / 'config.json'}: {DECODING} is {reprlib.repr(found)}; it must be a JSON object.")
    return found


def weights_digest(folder: Path) -> str | None:
    """SHA-256 of the weights in `folder` by its config.json, in hexadecimal; None where that does not say it."""
    digest = _read_facts(folder).get(DIGEST)
    return None if digest is None else str(digest)


def read_tensors(folder: Path, config: Config) -> MappedTensors:
    """The weights in `folder` as float32, checked by digest, name, shape and finiteness against `config`.

    A file that was found sound before, and has not changed since, is not hashed again (`storage/checked.py`).
    """
    path = folder / WEIGHTS
    digest = weights_digest(folder)
    try:
        state = file_state(path)
        known = digest is not None and known_digest(path) == digest
        if not known and digest is not None and digest != _digest(path):
            raise ModelError(
                f"{path} is not the file that was saved: its SHA-256 is not the {DIGEST} of config.json. "
                "Copy the model again."
            )
        found = _read_checked(path, config)
    except FileNotFoundError as error:
        raise ModelError(f"{path} is missing; the model folder is incomplete.") from error
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{path} cannot be read as safetensors ({error}); copy or convert the model again.") from error
    for name, tensor in found.items():
        if not known and not _finite(tensor, found):
            raise ModelError(f"{path}: tensor {name!r} holds a value that is not finite.")
    if digest is not None and not known:
        remember(path, digest, state)
    # Programs other than ours may write a tensor to any byte of a file; kernels read whole floats.
    floats: Tensors = {}
    for name, tensor in found.items():
        floats[name] = np.require(tensor, np.float32, ("C", "ALIGNED"))
        if floats[name] is not tensor:  # a copy, as of float16: the pages that it was made from are not needed again
            found.forget()
    return MappedTensors(floats, found.pages)


def _read_checked(path: Path, config: Config) -> MappedTensors:
    """Read the header first: no tensor is loaded before all names, shapes and dtypes are as `config` asks."""
    with safe_open(path, framework="np") as file:
        headers = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        try:
            shapes = {name: tuple(header.get_shape()) for name, header in headers.items()}
            architecture_of(config).check_shapes(config, shapes)
        except ModelError as error:
            raise ModelError(f"{path}: {error}") from None
        for name, header in headers.items():
            if header.get_dtype() not in ("F16", "F32"):
                raise ModelError(f"{path}: tensor {name!r} is {header.get_dtype()}; it must be F16 or F32.")
    return _mapped(path)


def _finite(tensor: NDArray[Any], found: MappedTensors) -> bool:
    """Whether all values of one of the tensors are finite, looking at some megabytes of its pages at a time."""
    values = tensor.reshape(-1)
    for first in range(0, values.size, _AT_ONCE):
        if not np.isfinite(values[first : first + _AT_ONCE]).all():
            return False
        found.forget()
    return True


def _mapped(path: Path) -> MappedTensors:
    """The tensors of a sound file as views of its pages: nothing is copied, and what is not used is not in memory."""
    with path.open("rb") as file:
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        raw = _core.file_pages(np.frombuffer(pages, np.uint8), file.fileno())
    start = 8 + int.from_bytes(raw[:8].tobytes(), "little")
    found: Tensors = {}
    for name, entry in json.loads(raw[8:start].tobytes()).items():
        if name != "__metadata__":
            begin, end = (start + offset for offset in entry["data_offsets"])
            dtype = np.dtype("<f4" if entry["dtype"] == "F32" else "<f2")
            found[name] = np.frombuffer(raw[begin:end], dtype).reshape(entry["shape"])
    return MappedTensors(found, pages)


def _read_facts(folder: Path) -> dict[str, Any]:
    """The JSON object in `folder`/config.json."""
    path = folder / "config.json"
    if not folder.is_dir():
        raise ModelError(f"there is no model folder {folder}; give a folder with a config.json or a bundled name.")
    try:
        with path.open("rb") as file:
            data = file.read(CONFIG_LIMIT + 1)
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}. {FOREIGN.format(folder)}") from error
    if len(data) > CONFIG_LIMIT:
        raise ModelError(f"{path} is larger than {CONFIG_LIMIT} bytes; it is not a config of Sharpbeam.")
    try:
        facts = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, a number of 5,000 digits, or too deep
        raise ModelError(f"{path} is not JSON: {error}.") from error
    if not isinstance(facts, dict):
        raise ModelError(f"{path} must hold a JSON object.")
    return facts


def _digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
