"""Recipes: the TOML files that describe a training run, and the settings that a resumed run must keep."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from sharpbeam.errors import InputError, ModelError, OptionError
from sharpbeam.models.registry import Config, architecture_of, find_architecture
from sharpbeam.options.schema import build, changed, fields_of
from sharpbeam.options.train import Recipe
from sharpbeam.text.lines import file_digest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILES = ("train", "valid", "train_target", "valid_target")  # of the table data; compared by content
EVERY = ("log_every", "validate_every", "checkpoint_every")
FREE = ("max_steps", "cooldown_steps", "patience", "threads", "device", *EVERY)


def read_recipe(path: Path, data: Path | None = None) -> Recipe:
    """The recipe in `path`; with `data`, the files of its text are in that folder.

    Raises InputError if the file cannot be read as TOML, OptionError by name if an option is unknown, missing,
    of the wrong type or out of range.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"cannot read the recipe {path}: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"the recipe {path} is not UTF-8; save it as UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"the recipe {path} is not TOML: {error}.") from error
    recipe = build(Recipe, table, path.name)
    _check_model(recipe)
    if data is None:
        return recipe
    files = {name: tuple(str(data.absolute() / file) for file in getattr(recipe.data, name)) for name in FILES}
    return replace(recipe, data=changed(recipe.data, files, path.name))


def _check_model(recipe: Recipe) -> None:
    """Raise OptionError for options that no model can have, before any text is read."""
    facts, size = dict(recipe.model), recipe.vocabulary.size
    sizes = {"vocab_size": size, "source_vocab_size": size, "target_vocab_size": recipe.vocabulary.target_size or size}
    for name in facts.keys() & sizes:
        raise OptionError(f"recipe: model.{name} is {facts[name]!r}; leave it out: it is that of the vocabulary.")
    try:
        config: Any = find_architecture(facts.pop("architecture", "recurrent")).config
        build(config, {name: sizes[name] for name in sizes if name in fields_of(config)} | facts, "recipe: model")
    except ModelError as error:
        raise OptionError(f"recipe: model: {error}") from error


def identity(recipe: Recipe, config: Config, base: Path, vocabularies: dict[str, bytes]) -> dict[str, Any]:
    """The settings by name, as JSON gives them back; text and vocabularies as SHA-256. `base` is where paths start."""
    data = asdict(recipe.data)
    facts: dict[str, Any] = {"model.architecture": architecture_of(config).name}
    facts |= {f"model.{key}": value for key, value in asdict(config).items()}
    facts |= {f"vocabulary.{key}": value for key, value in asdict(recipe.vocabulary).items()}
    facts |= {f"train.{key}": value for key, value in asdict(recipe.train).items() if key not in FREE}
    facts |= {f"data.{key}": value for key, value in data.items() if key not in FILES}
    facts |= {f"the text of data.{key}": [file_digest(base / name) for name in data[key]] for key in FILES}
    if recipe.train.start:
        facts["the model of train.start"] = file_digest(base / recipe.train.start / "model.safetensors")
    facts |= {f"the vocabulary {name}": hashlib.sha256(raw).hexdigest() for name, raw in vocabularies.items()}
    result: dict[str, Any] = json.loads(json.dumps(facts))
    return result


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The differences, in words. A setting that only one side knows is left out: it came with another version."""
    changed = [name for name in now if name in before and before[name] != now[name]]
    return [
        f"{name} is another" if name.startswith("the ") else f"{name} was {before[name]!r} and is {now[name]!r}"
        for name in changed
    ]
