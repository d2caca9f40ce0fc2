"""Small JSON files in a model folder of what was measured of it, each with the version of its format.

precision.json says how near integer matmuls come to float32, and the number type chosen by it; tuned.json, which
`sharpbeam tune` writes, the fastest choices on this machine.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sharpbeam.errors import ModelError, OutputError, failing
from sharpbeam.storage.atomic import write_text
from sharpbeam.storage.model_folder import read_facts
from sharpbeam.text.json import WORDS, read_json

PRECISION, TUNED = "precision.json", "tuned.json"
FORMAT_VERSION = 1  # of both
PRECISION_AGAIN = "Remove the file, or convert the model again."
TUNED_AGAIN = "Remove the file, or run sharpbeam tune again."


@dataclass(frozen=True)
class Evidence:
    """A number type against float32, both on the greedy answers of float32."""

    compute_type: str
    agreement: float  # share of the positions at which both have the same best token
    lost: float  # log probability by which float32 has the other's best token below its own; mean over the positions


@dataclass(frozen=True)
class Precision:
    """The number type that `compute_type="auto"` means for a model, and why."""

    compute_type: str
    tried: tuple[Evidence, ...]
    sentences: int
    positions: int
    text: str  # the origin of the sentences

    def summary(self) -> str:
        """The evidence, human-readable."""
        sentences = [
            f"{evidence.compute_type} has float32's best token at {evidence.agreement:.2%} of {self.positions} "
            f"positions, and loses {evidence.lost:.4f} of log probability at each"
            for evidence in self.tried
        ]
        return f"{self.compute_type}: {'; '.join(sentences)} ({self.sentences} sentences: {self.text})"


def read_record(path: Path, versions: Collection[int], advice: str) -> dict[str, Any]:
    """The facts in `path`; raises ModelError, with `advice`, if it is no JSON object of one of these versions."""
    try:
        facts = read_json(path, WORDS)
    except ModelError as error:
        raise ModelError(f"{error} {advice}") from error
    version = facts.pop("format_version", None)
    if version not in [*versions]:
        raise ModelError(f"{path}: format_version is {version!r}; this Sharpbeam reads {max(versions)}. {advice}")
    return facts


def save_precision(folder: Path, precision: Precision) -> None:
    """Write the evidence into the model folder; raises OutputError."""
    _save(folder / PRECISION, {"weights": read_facts(folder).digest, **asdict(precision)})


def read_precision(folder: Path) -> Precision | None:
    """The folder's evidence; None if there is none, or it is of other weights. Raises ModelError."""
    path = folder / PRECISION
    if not path.is_file():
        return None
    facts = read_record(path, {FORMAT_VERSION}, PRECISION_AGAIN)
    try:
        weights, tried = facts.pop("weights"), tuple(Evidence(**one) for one in facts.pop("tried"))
        precision = Precision(tried=tried, **facts)
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{path} cannot be read ({error}). {PRECISION_AGAIN}") from error
    _check_type(path, precision.compute_type, PRECISION_AGAIN)
    return precision if weights == read_facts(folder).digest else None


def save_tuned(
    folder: Path, compute_type: str, output_layer: str, artifacts: Mapping[str, str], evidence: Mapping[str, Any]
) -> None:
    """Write the choice, the digests of what it reads, and its evidence, into the model folder; raises OutputError."""
    choice = {"compute_type": compute_type, "output_layer": output_layer, "artifacts": artifacts}
    _save(folder / TUNED, {**choice, "measured": evidence})


def read_tuned(folder: Path) -> dict[str, Any]:
    """`compute_type`, `output_layer` and `artifacts` of tuned.json; empty if there is none. Raises ModelError."""
    path = folder / TUNED
    if not path.is_file():
        return {}
    facts = read_record(path, {FORMAT_VERSION}, TUNED_AGAIN)
    choices = {name: facts.get(name) for name in ("compute_type", "output_layer", "artifacts")}  # an old file has none
    _check_type(path, choices["compute_type"], TUNED_AGAIN)
    return choices


def _check_type(path: Path, found: object, advice: str) -> None:
    if found not in ("int8", "int16", "float32"):
        raise ModelError(f"{path}: compute_type is {found!r}; it must be int8, int16 or float32. {advice}")


def _save(path: Path, facts: Mapping[str, Any]) -> None:
    with failing(OutputError, f"write {path}"):
        write_text(path, json.dumps({"format_version": FORMAT_VERSION, **facts}, indent=1) + "\n")
