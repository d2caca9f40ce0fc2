"""How near integer matmuls come to float32 for a model, and the number type chosen by it: precision.json."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sharpbeam.errors import ModelError
from sharpbeam.storage.atomic import replacing_files
from sharpbeam.storage.model_folder import read_facts

FILE = "precision.json"
FORMAT_VERSION = 1
AGAIN = "Remove the file, or convert the model again."


@dataclass(frozen=True)
class Evidence:
    """A number type against float32, both given the greedy answers of float32."""

    compute_type: str
    agreement: float  # share of the positions at which both have the same best token
    lost: float  # what float32 thinks less likely of the other's best token: log probability, mean over the positions
    bleu: float | None = None  # of greedy answers, where references were given


@dataclass(frozen=True)
class Precision:
    """The number type that `compute_type="auto"` means for a model, and why."""

    compute_type: str
    tried: tuple[Evidence, ...]
    sentences: int
    positions: int
    text: str  # of what the sentences are
    bleu: float | None = None  # of float32, where references were given

    def summary(self) -> str:
        """For people."""
        said = []
        for one in self.tried:
            bleu = "" if one.bleu is None or self.bleu is None else f", BLEU {one.bleu:.2f} to {self.bleu:.2f}"
            said.append(
                f"{one.compute_type} has float32's best token at {one.agreement:.2%} of {self.positions} positions, "
                f"and loses {one.lost:.4f} of log probability at each{bleu}"
            )
        return f"{self.compute_type}: {'; '.join(said)} ({self.sentences} sentences: {self.text})"


def save_precision(folder: Path, precision: Precision) -> None:
    """Write the evidence into the model folder; raises OutputError."""
    facts = {"format_version": FORMAT_VERSION, "weights": read_facts(folder).digest, **asdict(precision)}
    with replacing_files(folder, FILE) as staging:
        (staging / FILE).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def read_precision(folder: Path) -> Precision | None:
    """The folder's evidence; None where there is none, or it is of other weights. Raises ModelError."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        facts: Any = json.loads(path.read_text(encoding="utf-8"))
        version, weights = facts.pop("format_version"), facts.pop("weights")
        tried = tuple(Evidence(**one) for one in facts.pop("tried"))
        found = Precision(tried=tried, **facts)
        sound = version == FORMAT_VERSION and found.compute_type in ("int8", "int16", "float32")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{path} cannot be read ({error}). {AGAIN}") from error
    if not sound:
        raise ModelError(f"{path}: it must have format_version {FORMAT_VERSION} and a number type. {AGAIN}")
    return found if weights == read_facts(folder).digest else None
