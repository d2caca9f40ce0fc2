"""A model folder on disk: config.json, model.safetensors, vocabularies; replaced as a whole, never unpickled."""

from __future__ import annotations

import dataclasses
import json
import mmap
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from sharpbeam import _core
from sharpbeam.errors import ModelError
from sharpbeam.models.config import SCALE, from_facts
from sharpbeam.models.registry import Config, architecture_of, find_architecture
from sharpbeam.storage.atomic import replacing_folder
from sharpbeam.storage.tensors import Int8Matrix, TensorEntry, save_tensors, tensor_entries
from sharpbeam.text.json import read_json
from sharpbeam.text.lines import file_digest
from sharpbeam.types import Floats

FORMAT_VERSION = 1
WEIGHTS = "model.safetensors"
CONFIG_LIMIT = 1 << 16  # bytes; a real config.json has about 700
DIGEST = "weights_sha256"  # key of config.json
DECODING = "decoding"  # key of config.json: the model's own options of a decoding run
FOREIGN = "If {} is a model of another program, convert it first: sharpbeam convert."
_HASHED = 1 << 26  # bytes of weights that are hashed at every load, in some 0.1 s
_CHUNK = 1 << 20  # values that are checked together
_HALF_INFINITY = 0x7C00  # the exponent of values of float16 that are not finite
_TABLES = ("source_embedding", "target_embedding", "embedding", "output_weight")  # read row by row, in float32


class MappedTensors(dict[str, Floats]):
    """Tensors that may be views of the pages of a file, which are read-only."""

    def __init__(self, tensors: Mapping[str, Floats], pages: mmap.mmap) -> None:
        super().__init__(tensors)
        self._pages = pages

    def forget(self) -> None:
        """Free the memory of all pages that were read; they are read again when they are needed."""
        _forget(self._pages)


def save_model(
    folder: Path,
    config: Config,
    tensors: Mapping[str, NDArray[Any] | Int8Matrix],
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
        if not (tensor.scale > 1e-36 if isinstance(tensor, Int8Matrix) else np.isfinite(tensor)).all():
            raise ModelError(f"cannot save {folder}: tensor {name!r} holds a value that is not finite.")
    with replacing_folder(folder) as temporary:
        save_tensors(temporary / WEIGHTS, tensors)
        facts = {"format_version": FORMAT_VERSION, "architecture": architecture_of(config).name}
        facts |= dataclasses.asdict(config)
        if decoding:
            facts[DECODING] = dict(decoding)
        facts[DIGEST] = file_digest(temporary / WEIGHTS)
        text = json.dumps(facts, indent=2) + "\n"
        if len(text) > CONFIG_LIMIT:
            raise ModelError(
                f"cannot save {folder}: its config.json would have {len(text)} bytes, and at most {CONFIG_LIMIT} are "
                "read; have fewer suppressed_ids (bad_words_ids of Hugging Face) or languages."
            )
        (temporary / "config.json").write_text(text, encoding="utf-8")
        for name, data in vocabularies.items():
            (temporary / name).write_bytes(data)
        (temporary / "README.md").write_text(card, encoding="utf-8")
        if finish is not None:
            finish(temporary)


@dataclass(frozen=True)
class FolderFacts:
    """The content of config.json of a model folder."""

    config: Config
    decoding: dict[str, Any]  # the model's own options of a decoding run, by name; most models have none
    digest: str | None  # SHA-256 of the weights, in hexadecimal


def read_facts(folder: Path) -> FolderFacts:
    """The facts in `folder`/config.json; anything missing, unknown or mistyped raises ModelError by name."""
    path, facts = folder / "config.json", _read_json(folder)
    digest, decoding = facts.pop(DIGEST, None), facts.pop(DECODING, {})
    version, architecture = facts.pop("format_version", None), facts.pop("architecture", None)
    if type(version) is not int or version != FORMAT_VERSION:
        other = f" {FOREIGN.format(folder)}" if version is None else ""
        raise ModelError(f"{path}: format_version is {version!r}; this Sharpbeam reads {FORMAT_VERSION}.{other}")
    if not isinstance(decoding, dict):
        raise ModelError(f"{path}: {DECODING} is {reprlib.repr(decoding)}; it must be a JSON object.")
    try:
        config = from_facts(find_architecture(architecture).config, facts)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    return FolderFacts(config, decoding, None if digest is None else str(digest))


def read_config(folder: Path) -> Config:
    """The model's own facts in `folder`/config.json; raises ModelError as `read_facts`."""
    return read_facts(folder).config


def verify_weights(folder: Path, facts: FolderFacts | None = None) -> bool:
    """Hash the weights in `folder`: False if its config.json has no digest. Raises ModelError if it has another.

    Raises InputError if there are no weights. `facts` are those of config.json, if they were read already.
    """
    path, digest = folder / WEIGHTS, (facts or read_facts(folder)).digest
    if digest is not None and digest != file_digest(path):
        raise ModelError(
            f"{path} is not the file that was saved: its SHA-256 is not the {DIGEST} of config.json. "
            "Copy the model again."
        )
    return digest is not None


def weight_types(folder: Path) -> list[str]:
    """The types of the weights on disk: some of float32, float16 and int8. Raises ModelError."""
    try:
        dtypes = {entry.dtype for name, entry in tensor_entries(folder / WEIGHTS).items() if not name.endswith(SCALE)}
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{folder / WEIGHTS} cannot be read as safetensors ({error}).") from error
    return [name for dtype, name in (("I8", "int8"), ("F16", "float16"), ("F32", "float32")) if dtype in dtypes]


def read_tensors(
    folder: Path, config: Config, facts: FolderFacts | None = None, *, widen: bool = True
) -> MappedTensors:
    """The weights in `folder` as float32, checked by name, shape, dtype and finiteness against `config`.

    The file is checked against its digest too, unless it is so large that this would take the most of a load: then only
    `verify_weights` does that. float32 tensors are views of the mapped file. Raises ModelError.

    Without `widen` matrices other than tables of tokens are views too: float16, or int8 with NAME.scale float32
    [rows].
    """
    path = folder / WEIGHTS
    try:
        if path.stat().st_size <= _HASHED:
            verify_weights(folder, facts)
        entries = tensor_entries(path)
        _check(path, config, entries)
        with path.open("rb") as file:
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            raw = _core.file_pages(np.frombuffer(pages, np.uint8), file.fileno())
        tensors = {
            name: _floats(name, entries, raw, widen=widen)
            for name in entries
            if not _is_scale(name, entries, widen=widen)
        }
    except FileNotFoundError as error:
        raise ModelError(f"{path} is missing; the model folder is incomplete.") from error
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{path} cannot be read as safetensors ({error}); copy or convert the model again.") from error
    for name, tensor in tensors.items():
        # Integers are finite; the largest of them over each scale must be too.
        with np.errstate(divide="ignore", over="ignore"):
            values = np.divide(128, tensors[name + SCALE], dtype=np.float32) if tensor.dtype == np.int8 else tensor
        if not _finite(values, pages):
            raise ModelError(f"{path}: tensor {name!r} holds a value that is not finite.")
    return MappedTensors(tensors, pages)


def _is_scale(name: str, entries: Mapping[str, TensorEntry], *, widen: bool = True) -> bool:
    """Whether a tensor holds the scales of another one, of int8, which is widened."""
    base = entries.get(name.removesuffix(SCALE)) if name.endswith(SCALE) else None
    return base is not None and base.dtype == "I8" and (widen or name.removesuffix(SCALE) in _TABLES)


def _check(path: Path, config: Config, entries: Mapping[str, TensorEntry]) -> None:
    """Raise ModelError unless all names, shapes and dtypes are as `config` asks."""
    shapes = {name: entry.shape for name, entry in entries.items() if not _is_scale(name, entries)}
    try:
        architecture_of(config).check_shapes(config, shapes)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    for name, entry in entries.items():
        if entry.dtype == "I8":
            scale = entries.get(name + SCALE)
            if len(entry.shape) != 2 or scale is None or scale.dtype != "F32" or scale.shape != entry.shape[:1]:
                raise ModelError(f"{path}: tensor {name!r} is I8; it must have {name + SCALE!r}, F32, one a row.")
        elif entry.dtype not in ("F16", "F32"):
            raise ModelError(f"{path}: tensor {name!r} is {entry.dtype}; it must be F16, F32 or I8.")


def _floats(name: str, entries: Mapping[str, TensorEntry], raw: NDArray[np.uint8], *, widen: bool) -> NDArray[Any]:
    """A tensor as float32, C-contiguous and aligned, which other programs' files need not be; or as it is."""
    tensor = entries[name].view(raw)
    if entries[name].dtype in ("I8", "F16") and tensor.ndim == 2 and not (widen or name in _TABLES):
        return np.require(tensor, requirements=("C", "ALIGNED"))
    if entries[name].dtype == "I8":
        return Int8Matrix(tensor, entries[name + SCALE].view(raw)[:, None]).values()
    return np.require(tensor, np.float32, ("C", "ALIGNED"))


def _finite(tensor: NDArray[Any], pages: mmap.mmap) -> bool:
    """Whether all values are finite. A sum is fast, and finite unless one of them is not or all together overflow."""
    values = tensor.reshape(-1)
    for first in range(0, values.size, _CHUNK):
        chunk = values[first : first + _CHUNK]
        if chunk.dtype == np.float16:  # for which NumPy computes each value by itself
            finite = bool(((chunk.view(np.uint16) & _HALF_INFINITY) != _HALF_INFINITY).all())
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                finite = bool(np.isfinite(chunk.sum()) or np.isfinite(chunk).all())
        if not finite:
            return False
        _forget(pages)  # of a large file, only one chunk is in memory
    return True


def _forget(pages: mmap.mmap) -> None:
    if hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)


def _read_json(folder: Path) -> dict[str, Any]:
    """The JSON object in `folder`/config.json."""
    path = folder / "config.json"
    if not folder.is_dir():
        raise ModelError(f"there is no model folder {folder}; give a folder with a config.json or a bundled name.")
    try:
        return read_json(path, CONFIG_LIMIT)
    except ModelError as error:
        raise ModelError(f"{error} {FOREIGN.format(folder)}") from error
