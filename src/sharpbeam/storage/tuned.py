"""The fastest choices for a model on this machine: tuned.json in its folder, written by `sharpbeam tune`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sharpbeam.errors import ModelError
from sharpbeam.storage.records import read_record, save_record

FILE = "tuned.json"
FORMAT_VERSION = 1
AGAIN = "Remove the file, or run sharpbeam tune again."


def save_tuned(folder: Path, compute_type: str, output_layer: str, evidence: Mapping[str, Any]) -> None:
    """Write the choice, and its measured evidence, into the model folder; raises OutputError."""
    facts = {"compute_type": compute_type, "output_layer": output_layer, "measured": dict(evidence)}
    save_record(folder, FILE, FORMAT_VERSION, facts)


def read_tuned(folder: Path) -> dict[str, str]:
    """`compute_type` and `output_layer` of the folder's tuned.json; empty if there is none. Raises ModelError."""
    path = folder / FILE
    if not path.is_file():
        return {}
    facts = read_record(path, [FORMAT_VERSION], AGAIN)
    choices = {name: facts.get(name) for name in ("compute_type", "output_layer")}
    if not all(isinstance(choice, str) for choice in choices.values()):
        raise ModelError(f"{path}: compute_type and output_layer must be names. {AGAIN}")
    return {name: str(choice) for name, choice in choices.items()}
