"""The files next to a model of Marian or Bergamot: options of its decoder, vocabularies and shortlist."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sharpbeam.convert.converted import checked_decoding
from sharpbeam.convert.formats.spm import read_spm
from sharpbeam.convert.formats.yaml import read_options, read_words
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
    source: Path  # vocabularies, .spm or .yml
    target: Path
    shortlist: Path | None  # a binary one
    decoding: Mapping[str, Any]  # the model's own search options
    notes: tuple[str, ...] = ()


def is_options_file(path: Path) -> bool:
    """Whether `path` is named as YAML options are."""
    return path.suffix in _YAML


def named_model(options: Path) -> Path:
    """The model that a file of options names, which lies next to it; raises ModelError or InputError."""
    names = _names(read_options(options), "models")
    if len(names) != 1:
        raise InputError(
            f"{options} names {len(names)} models; convert each by itself, and join them as an ensemble: a+b."
        )
    path = options.parent / names[0]
    if not path.is_file():
        raise ModelError(f"{options} names the model {names[0]}, which does not lie next to it; copy it there.")
    return path


def find_marian_files(
    model: Path, source: Path | None, target: Path | None, options: Path | None = None
) -> MarianFiles:
    """The files that belong to `model`; those that were given win, and `options` are looked for where they are not.

    Vocabularies are those that the options name, where they lie next to the model; else srcvocab.* and trgvocab.*; else
    the only one there. Raises ModelError if there is not one, and InputError for options that cannot be read.
    """
    path = options or _find_options(model)
    found = read_options(path) if path else {}
    if source is None:
        vocabularies = _noted(model, found) or _pair(model.parent) or [_only(model)]
        source, target = vocabularies[0], target or vocabularies[-1]
    shortlist, notes = _shortlist(model.parent, found)
    decoding = _decoding(path, found) if path and "models" in found else {}
    return MarianFiles(model, source, target or source, shortlist, decoding, notes)


def _find_options(model: Path) -> Path | None:
    """The options that Marian writes for its decoder, or those that name the model; or those it was trained with."""
    for name in (f"{model.name}.decoder.yml", *_others(model), f"{model.name}.yml"):
        if (model.parent / name).is_file():
            return model.parent / name
    return None


def _others(model: Path) -> list[str]:
    """The names of other files of options that name the model; none where several do."""
    found = []
    for path in sorted(one for end in _YAML for one in model.parent.glob(f"*{end}")):
        if path.name.startswith(f"{model.name}."):
            continue
        try:
            if model.name in _names(read_options(path), "models"):
                found.append(path.name)
        except SharpbeamError:
            if path.name.startswith("config"):  # others are vocabularies, or of other models
                raise
    return found if len(found) == 1 else []


def _names(options: Mapping[str, Any], key: str) -> list[str]:
    """The file names in a list of paths; none where there is no such list."""
    paths = options.get(key)
    return [Path(str(path)).name for path in paths] if isinstance(paths, list) else []


def _noted(model: Path, options: Mapping[str, Any]) -> list[Path]:
    """One or two vocabularies that the options name, where they lie next to the model; or none."""
    names = _names(options, "vocabs")
    there = {one.name for one in model.parent.glob("*") if one.is_file()}
    return [model.parent / name for name in names] if len(names) in (1, 2) and there >= set(names) else []


def _pair(folder: Path) -> list[Path]:
    """The two vocabularies of a model of Firefox with one for each side, or none."""
    found = [[one for end in (".spm", *_YAML) for one in folder.glob(f"{side}vocab*{end}")] for side in ("src", "trg")]
    return [files[0] for files in found] if all(len(files) == 1 for files in found) else []


def _only(model: Path) -> Path:
    """The only vocabulary next to the model. Of several files those that are no list of tokens do not count."""
    files = [one for end in (*_YAML, ".spm") for one in sorted(model.parent.glob(f"*{end}"))]
    found = [one for one in files if ".npz." not in one.name and not one.name.startswith(f"{model.name}.")]
    if len(found) > 1:
        found = [one for one in found if one.suffix == ".spm" or _is_list(one)] or found
    if len(found) != 1:
        raise ModelError(
            f"{model.parent} has {len(found)} vocabularies{''.join(f', {one.name}' for one in found)}; say which: "
            "--source-spm FILE, --target-spm FILE."
        )
    return found[0]


def _is_list(path: Path) -> bool:
    try:
        return bool(read_words(path))
    except SharpbeamError:
        return False


def _shortlist(folder: Path, options: Mapping[str, Any]) -> tuple[Path | None, tuple[str, ...]]:
    """The binary shortlist that the options name, or the only one there; and what to say of one that is not read."""
    named = options.get("shortlist")
    name = Path(str(named[0])).name if isinstance(named, list) and named else ""
    found = [folder / name] if name and (folder / name).is_file() else sorted(folder.glob("lex*.bin"))
    found = [one for one in found if one.is_file()]
    if len(found) != 1:
        return None, ()
    if not is_marian_shortlist(found[0]):
        return None, (f"Its shortlist is text: sharpbeam fit shortlist MODEL --lex {found[0].name} reads it.",)
    return found[0], ()


def _decoding(path: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """The search options in `options`, checked; raises ModelError."""
    found: dict[str, Any] = {}
    for theirs, ours in _SEARCH.items():
        value = options.get(theirs)
        try:
            found |= {} if value is None else {ours: value if type(value) is int else float(value)}
        except (TypeError, ValueError):
            raise ModelError(f"{path}: {theirs} is {reprlib.repr(value)}; it must be a number.") from None
    return checked_decoding(path, found)


def read_vocabulary(path: Path, size: int) -> tuple[list[str], bytes | None]:
    """The words of a .yml file, or the pieces of an .spm, by id, and the SentencePiece model.

    Raises ModelError or InputError for a file that is none, or has more words than `size`, the model's embeddings.
    """
    spm: bytes | None = None
    if path.suffix in (".yml", ".yaml"):
        words = read_words(path)
    else:
        spm, words = read_spm(path)
    if len(words) > size:
        raise ModelError(f"{path} has {len(words)} words, but the model's embedding has {size}; give its vocabulary.")
    return [*words, *(f"<unused {i}>" for i in range(len(words), size))], spm
