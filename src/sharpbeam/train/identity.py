"""The identity of a run: settings that must stay the same for a checkpoint to be resumed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

from sharpbeam.models.registry import Config, architecture_of
from sharpbeam.options.train import Recipe
from sharpbeam.text.lines import file_digest

FILES = ("train", "valid", "train_target", "valid_target")  # of the table data; compared by what is in them
FREE = ("max_steps", "threads", "device", "log_every", "checkpoint_every", "validate_every", "patience")


def identity(recipe: Recipe, config: Config, base: Path, vocabularies: dict[str, bytes]) -> dict[str, Any]:
    """The settings by name, as JSON gives them back; text and vocabularies as SHA-256. `base` is where paths start."""
    data = dataclasses.asdict(recipe.data)
    facts: dict[str, Any] = {"model.architecture": architecture_of(config).name}
    facts |= {f"model.{key}": value for key, value in dataclasses.asdict(config).items()}
    facts |= {f"vocabulary.{key}": value for key, value in dataclasses.asdict(recipe.vocabulary).items()}
    facts |= {f"train.{key}": value for key, value in dataclasses.asdict(recipe.train).items() if key not in FREE}
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
