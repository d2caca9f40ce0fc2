"""Models of other programs, each read by the reader for its kind, to model folders."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from sharpbeam.convert.foreign import ForeignModel
from sharpbeam.convert.formats.marian import is_marian_file
from sharpbeam.convert.formats.weights import Tensor, values
from sharpbeam.convert.readers.ctranslate2 import read_ctranslate2
from sharpbeam.convert.readers.hugging_face.families import FAMILIES
from sharpbeam.convert.readers.hugging_face.read import read_hugging_face
from sharpbeam.convert.readers.marian import read_marian
from sharpbeam.errors import InputError, ModelError, OutputError
from sharpbeam.hub.cache import source_files
from sharpbeam.hub.names import HUB_NAME, Name, name_of
from sharpbeam.options.schema import choice, require
from sharpbeam.storage.atomic import check_folder
from sharpbeam.storage.tensors import Int8Matrix
from sharpbeam.text.json import read_json
from sharpbeam.text.lines import check_readable

Quantization = Literal["auto", "int8", "float32"]


@dataclass(frozen=True)
class Conversion:
    """A finished conversion."""

    folder: Path
    summary: str  # format, layers, tokens and weights of the model, human-readable
    notes: tuple[str, ...] = ()  # for the user, a sentence each


def convert_model(
    source: str | Path,
    output: str | Path,
    *,
    source_spm: str | Path | None = None,
    target_spm: str | Path | None = None,
    quantization: Quantization = "auto",
    overwrite: bool = False,
) -> Conversion:
    """Convert the model `source` of another program to the model folder `output`.

    `source` is a folder, a file, or a name to fetch (firefox:en-pt, hf:owner/name). Its own shortlist and search
    options are kept. `source_spm` and `target_spm` are the SentencePiece models of a model that comes without; the
    target's default is the source's. `quantization`: "auto" stores matrices as the source has them, int8 or float32;
    "int8" quantizes all, each row by its largest value; "float32" none. `overwrite` replaces a model folder.

    Raises ModelError for a model that cannot be read or has a feature that Sharpbeam lacks, InputError for files that
    cannot be read, OutputError if `output` cannot be written, OptionError for a wrong value.
    """
    name, folder = str(source), Path(output)
    require(bool(name), "source", name, "a folder, a file, or a name such as firefox:en-pt")
    choice("quantization", quantization, Quantization)
    spm = (source_spm and Path(source_spm)) or None, (target_spm and Path(target_spm)) or None
    check_readable([path for path in spm if path is not None])
    _check_output(folder, Path(name), overwrite)
    to_fetch = _name(name)
    if to_fetch is not None and to_fetch.registry not in ("ct2", "url"):
        _refuse_flags(*spm, f"{name}, which is fetched,")
    with source_files(to_fetch) if to_fetch else nullcontext(Path(name)) as files:
        model = read_model(str(files), *spm)
        if quantization != "auto":
            tensors = {name: _stored(name, tensor, quantization) for name, tensor in model.tensors.items()}
            model = replace(model, tensors=tensors)
        model.save(folder, folder.resolve().name)
    return Conversion(folder, model.summary, model.notes)


def _name(source: str) -> Name | None:
    """The name that `source` is; None for a folder or file that is there. owner/name is one in the hub."""
    if Path(source).exists():
        return None
    name = name_of(source) or (Name("hf", source) if HUB_NAME.fullmatch(source) else None)
    if name is None:
        raise InputError(f"there is no folder or file {source!r}, nor is it a name in the hub (owner/name); check it.")
    return name


def _stored(name: str, tensor: Tensor, quantization: Quantization) -> Tensor:
    """A tensor as it is stored: matrices of int8 or of float32. Biases of positions are in no matmul."""
    if quantization == "float32":
        return values(tensor)
    is_matrix = not isinstance(tensor, Int8Matrix) and tensor.ndim == 2 and not name.endswith("position_bias")
    return Int8Matrix.quantized(values(tensor)) if is_matrix else tensor


def _check_output(output: Path, source: Path, overwrite: bool) -> None:
    """Raise OutputError if `output` cannot be made, or must not be replaced, before the model is read."""
    if not output.exists():
        check_folder(output.absolute().parent, str(output), "another name")
    elif not is_model_folder(output):
        raise OutputError(f"{output} is there and is no model folder of Sharpbeam, so it stays; give another name.")
    elif source.resolve().is_relative_to(output.resolve()):
        raise OutputError(f"{output} holds {source}, which is to be converted; give another name.")
    elif not overwrite:
        raise OutputError(f"{output} is there already; give another name, or --overwrite to replace it.")


def read_model(origin: str, source_spm: Path | None = None, target_spm: Path | None = None) -> ForeignModel:
    """The model at `origin`, a folder or a file. Raises ModelError or InputError.

    `source_spm` and `target_spm` are for kinds that do not come with SentencePiece models; others refuse them.
    """
    path = Path(origin)
    if is_model_folder(path):
        raise InputError(f"{path} is a model of Sharpbeam already; use it as it is, or add --format firefox.")
    if "model_type" in _facts(path):
        _refuse_flags(source_spm, target_spm, "a model of Hugging Face")
        return read_hugging_face(path)
    if path.is_dir() and (path / "model.bin").is_file() and not is_marian_file(path / "model.bin"):
        return read_ctranslate2(path, source_spm, target_spm)
    inside = [path]  # or the models of Marian in a folder, without the state of its optimizer
    if path.is_dir():
        inside = [*sorted(path.glob("*.npz")), *filter(is_marian_file, sorted(path.glob("*.bin")))]
        inside = [one for one in inside if not one.name.endswith(".optimizer.npz")]
    if len(inside) == 1 and (inside[0].suffix in (".npz", ".yml", ".yaml") or is_marian_file(inside[0])):
        return read_marian(inside[0], source_spm, target_spm)
    if len(inside) > 1:
        raise InputError(f"{path} holds {len(inside)} models; give one of {', '.join(map(str, inside))}.")
    raise ModelError(
        f"{path} is no model that can be read: give a folder of CTranslate2, a model (.npz or .bin) of Marian or "
        "Bergamot, its options (.yml) or its folder, or a folder of Hugging Face with a config.json "
        f"of model_type {', '.join(FAMILIES)}."
    )


def is_model_folder(path: Path) -> bool:
    """Whether `path` is a model folder of Sharpbeam."""
    try:
        return "format_version" in _facts(path)
    except ModelError:
        return False


def _facts(path: Path) -> dict[str, Any]:
    """The facts in config.json of a folder; none where there is no such file."""
    return read_json(path / "config.json") if (path / "config.json").is_file() else {}


def _refuse_flags(source_spm: Path | None, target_spm: Path | None, owner: str) -> None:
    """Raise InputError for an option that would have no effect, since `owner` has its own."""
    for name, path in (("source-spm", source_spm), ("target-spm", target_spm)):
        if path is not None:
            raise InputError(f"{name} is {path}; {owner} has its own SentencePiece models, so leave it out.")
