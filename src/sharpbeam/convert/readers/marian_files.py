"""The files next to a model of Marian or Bergamot: options of its decoder, vocabularies and shortlist."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sharpbeam.convert.foreign import checked_decoding
from sharpbeam.convert.formats.marian import read_options
from sharpbeam.convert.formats.spm import read_spm
from sharpbeam.errors import InputError, ModelError, SharpbeamError
from sharpbeam.storage.marian_shortlist import is_marian_shortlist

_YAML = (".yml", ".yaml")
_SEARCH = {  # Marian's name -> ours
    "beam-size": "beam_size",
    "normalize": "length_penalty",
    "max-length-factor": "max_length_factor",
}


@dataclass(frozen=True)
class MarianFiles:
    """The files of one model."""

    model: Path
    source: Path  # vocabularies
    target: Path
    shortlist: Path | None  # a binary one
    decoding: Mapping[str, Any]  # the model's own search options
    notes: tuple[str, ...] = ()


def find_marian_files(path: Path, source: Path | None, target: Path | None) -> MarianFiles:
    """The files of the model `path`, or of the one that its options `path` name, except those that the caller names.

    Vocabularies are those that the options name, if they lie next to the model; else srcvocab.* and trgvocab.*; else
    the only one there. Raises ModelError if there is not one, and InputError for options that cannot be read.
    """
    options, model = (path, _named_model(path)) if path.suffix in _YAML else (_find_options(path), path)
    facts = read_options(options) if options else {}
    if source is None:
        vocabularies = _vocabularies(model, facts)
        source, target = vocabularies[0], target or vocabularies[-1]
    shortlist, notes = _shortlist(model.parent, facts)
    search = {ours: facts[theirs] for theirs, ours in _SEARCH.items() if "models" in facts and theirs in facts}
    decoding = checked_decoding(options or model, search)
    return MarianFiles(model, source, target or source, shortlist, decoding, notes)


def _named_model(options: Path) -> Path:
    """The model that a file of options names, which lies next to it."""
    names = _names(read_options(options), "models")
    if len(names) != 1:
        raise InputError(
            f"{options} names {len(names)} models; convert each by itself, and join them as an ensemble: a+b."
        )
    path = options.parent / names[0]
    if not path.is_file():
        raise ModelError(f"{options} names the model {names[0]}, which does not lie next to it; copy it there.")
    return path


def _find_options(model: Path) -> Path | None:
    """The options that Marian writes for its decoder, or the only ones that name the model; or its training's."""
    naming = []
    for path in _files(model, *_YAML):
        try:
            naming += [path.name] if model.name in _names(read_options(path), "models") else []
        except SharpbeamError:
            if path.name.startswith("config"):  # others are vocabularies, or of other models
                raise
    names = (f"{model.name}.decoder.yml", *(naming if len(naming) == 1 else ()), f"{model.name}.yml")
    return next((path for name in names if (path := model.parent / name).is_file()), None)


def _files(model: Path, *endings: str) -> list[Path]:
    """The files next to `model` with one of these endings, except those that are named after it."""
    files = sorted(path for path in model.parent.iterdir() if path.suffix in endings and path.is_file())
    return [path for path in files if not path.name.startswith(f"{model.name}.")]


def _names(options: Mapping[str, Any], key: str) -> list[str]:
    """The file names in a list of paths; none if there is no such list."""
    paths = options.get(key)
    return [Path(str(path)).name for path in paths] if isinstance(paths, list) else []


def _vocabularies(model: Path, options: Mapping[str, Any]) -> list[Path]:
    """One or two vocabularies; raises ModelError if there is none, or more than one without names that tell which."""
    paths = [model.parent / name for name in _names(options, "vocabs")]
    if len(paths) in (1, 2) and all(path.is_file() for path in paths):
        return paths
    files = _files(model, ".spm")
    paths = [path for side in ("srcvocab", "trgvocab") for path in files if path.name.startswith(side)]
    if len(paths) == 2 and paths[1].name.startswith("trg"):
        return paths
    if len(files) != 1:
        raise ModelError(
            f"{model.parent} has {len(files)} vocabularies (.spm){''.join(f', {path.name}' for path in files)}; say "
            "which: --source-spm FILE, --target-spm FILE."
        )
    return files


def _shortlist(folder: Path, options: Mapping[str, Any]) -> tuple[Path | None, tuple[str, ...]]:
    """The binary shortlist that the options name, or the only one there; and a note about one that is not read."""
    paths = [folder / name for name in _names(options, "shortlist")[:1] if (folder / name).is_file()]
    paths = paths or [path for path in sorted(folder.glob("lex*.bin")) if path.is_file()]
    if len(paths) != 1 or is_marian_shortlist(paths[0]):
        return (paths[0] if len(paths) == 1 else None), ()
    return None, (f"Its shortlist {paths[0].name} is text, which is not read; fit shortlist makes one of pairs.",)


def read_vocabulary(path: Path, size: int) -> tuple[list[str], bytes]:
    """The pieces of a SentencePiece model by id, and the model.

    Raises ModelError for a file that is none, such as a list of words (.yml), or one with more pieces than `size`, the
    model's embeddings.
    """
    if path.suffix in _YAML:
        raise ModelError(f"{path} is a list of words; models whose vocabulary is of SentencePiece (.spm) are read.")
    spm, pieces = read_spm(path)
    if len(pieces) > size:
        raise ModelError(f"{path} has {len(pieces)} pieces, but the model's embedding has {size}; give its vocabulary.")
    return [*pieces, *(f"<unused {i}>" for i in range(len(pieces), size))], spm
