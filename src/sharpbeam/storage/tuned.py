"""The fastest choices for a model on this machine: tuned.json in its folder, written by `sharpbeam tune`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sharpbeam.errors import ModelError
from sharpbeam.storage.atomic import replacing_files

FILE = "tuned.json"
FORMAT_VERSION = 1
AGAIN = "Remove the file, or run sharpbeam tune again."


def save_tuned(folder: Path, compute_type: str, output_layer: str, evidence: Mapping[str, Any]) -> None:
    """Write the choice, and what was measured, into the model folder; raises OutputError."""
    facts = {
        "format_version": FORMAT_VERSION,
        "compute_type": compute_type,
        "output_layer": output_layer,
        "measured": dict(evidence),
    }
    with replacing_files(folder, FILE) as staging:
        (staging / FILE).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def read_tuned(folder: Path) -> dict[str, str]:
    """`compute_type` and `output_layer` of the folder's tuned.json, or nothing where there is none; ModelError."""
    path = folder / FILE
    if not path.is_file():
        return {}
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read as JSON ({error}). {AGAIN}") from error
    names = ("compute_type", "output_layer")
    found = {name: facts.get(name) for name in names} if isinstance(facts, dict) else {}
    version = facts.get("format_version") if isinstance(facts, dict) else None
    if version != FORMAT_VERSION or not all(isinstance(value, str) for value in found.values()):
        raise ModelError(f"{path}: format_version is {version!r}; this Sharpbeam reads {FORMAT_VERSION}. {AGAIN}")
    return {name: str(value) for name, value in found.items()}
