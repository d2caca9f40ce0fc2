"""Any model of another program: its kind, and the reader for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sharpbeam.convert.foreign import ForeignModel
from sharpbeam.convert.formats.marian import is_marian_file
from sharpbeam.convert.readers.ctranslate2 import read_ctranslate2
from sharpbeam.convert.readers.hugging_face.read import FAMILIES, read_hugging_face
from sharpbeam.convert.readers.marian import read_marian
from sharpbeam.errors import InputError, ModelError
from sharpbeam.text.json import read_json


def read_model(origin: str, source_spm: Path | None = None, target_spm: Path | None = None) -> ForeignModel:
    """The model at `origin`, a folder or a file. Raises ModelError or InputError.

    `source_spm` and `target_spm` are for kinds that do not come with SentencePiece models; others refuse them.
    """
    path = Path(origin)
    if is_model_folder(path):
        raise InputError(f"{path} is a model of Sharpbeam already; use it as it is.")
    if "model_type" in _facts(path):
        refuse_flags(source_spm, target_spm, "a model of Hugging Face")
        return read_hugging_face(path)
    if path.is_dir() and (path / "model.bin").is_file() and not is_marian_file(path / "model.bin"):
        return read_ctranslate2(path, source_spm, target_spm)
    inside = _models_in(path) if path.is_dir() else [path]
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
        return {"format_version", "architecture"} <= _facts(path).keys()
    except ModelError:
        return False


def _facts(path: Path) -> dict[str, Any]:
    """The facts in config.json of a folder; none where there is no such file."""
    return read_json(path / "config.json") if (path / "config.json").is_file() else {}


def _models_in(folder: Path) -> list[Path]:
    """The models of Marian in a folder, without the state of its optimizer that Marian writes there."""
    models = [*sorted(folder.glob("*.npz")), *filter(is_marian_file, sorted(folder.glob("*.bin")))]
    return [one for one in models if not one.name.endswith(".optimizer.npz")]


def refuse_flags(source_spm: Path | None, target_spm: Path | None, owner: str) -> None:
    """Raise InputError for an option that would have no effect, since `owner` has its own."""
    for name, path in (("source-spm", source_spm), ("target-spm", target_spm)):
        if path is not None:
            raise InputError(f"{name} is {path}; {owner} has its own SentencePiece models, so leave it out.")
