"""Recipes: the TOML files that describe a training run."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from sharpbeam.errors import InputError, ModelError, OptionError
from sharpbeam.models.registry import find_architecture
from sharpbeam.options.schema import build, changed
from sharpbeam.options.train import Recipe
from sharpbeam.train.identity import FILES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_recipe(path: Path, data: Path | None = None) -> Recipe:
    """The recipe in `path`; with `data`, the files of its text are in that folder.

    Raises InputError where the file cannot be read as TOML, OptionError by name where an option is unknown, missing,
    of the wrong type or out of range.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read the recipe {path}: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"the recipe {path} is not UTF-8; save it as UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"the recipe {path} is not TOML: {error}.") from error
    recipe = build(Recipe, table, path.name)
    try:
        find_architecture(recipe.model.get("architecture", "recurrent"))
    except ModelError as error:
        raise OptionError(f"{path.name}: model: {error}") from error
    if data is None:
        return recipe
    files = {name: tuple(str(data.absolute() / file) for file in getattr(recipe.data, name)) for name in FILES}
    return replace(recipe, data=changed(recipe.data, files, path.name))
