"""How near integer matmuls come to float32 for a model, and the number type chosen by it: precision.json."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from sharpbeam.errors import ModelError
from sharpbeam.storage.model_folder import read_facts
from sharpbeam.storage.records import read_record, save_record

FILE = "precision.json"
FORMAT_VERSION = 1
AGAIN = "Remove the file, or convert the model again."


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


def save_precision(folder: Path, precision: Precision) -> None:
    """Write the evidence into the model folder; raises OutputError."""
    save_record(folder, FILE, FORMAT_VERSION, {"weights": read_facts(folder).digest, **asdict(precision)})


def read_precision(folder: Path) -> Precision | None:
    """The folder's evidence; None if there is none, or it is of other weights. Raises ModelError."""
    path = folder / FILE
    if not path.is_file():
        return None
    facts = read_record(path, [FORMAT_VERSION], AGAIN)
    try:
        weights, older = facts.pop("weights"), {"bleu"}  # of files that were written before
        tried = tuple(Evidence(**{name: one[name] for name in one.keys() - older}) for one in facts.pop("tried"))
        precision = Precision(tried=tried, **{name: facts[name] for name in facts.keys() - older})
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{path} cannot be read ({error}). {AGAIN}") from error
    if precision.compute_type not in ("int8", "int16", "float32"):
        allowed = "it must be int8, int16 or float32"
        raise ModelError(f"{path}: compute_type is {precision.compute_type!r}; {allowed}. {AGAIN}")
    return precision if weights == read_facts(folder).digest else None
