"""Journals of interrupted jobs: how far each is, and which job it is; output.py says when they are written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sharpbeam.decoding.loading import LoadedModel
from sharpbeam.errors import OptionError
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.options.schema import build
from sharpbeam.storage.atomic import write_text
from sharpbeam.storage.model_folder import WEIGHTS, read_facts
from sharpbeam.storage.records import PRECISION, TUNED
from sharpbeam.text.lines import file_digest
from sharpbeam.version import program_version

Job = Mapping[str, Any]  # all that decides the bytes of a result, except its input: options, model, program version
_NOTHING = hashlib.sha256().hexdigest()


@dataclass(frozen=True)
class Journal:
    """How far the part is."""

    job: dict[str, Any]
    lines: int = 0  # input lines done
    bytes: int = 0  # of the part
    input_sha256: str = _NOTHING  # of those input lines
    output_sha256: str = _NOTHING  # of those bytes
    version: int = 1

    def save(self, path: Path) -> None:
        """Replace the file `path`, on the disk."""
        write_text(path, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Journal | None:
        """The journal at `path`, or None if there is none that can be read, or one of a later version."""
        try:
            journal = build(cls, json.loads(path.read_text(encoding="utf-8")), str(path))
        except (OSError, OptionError, ValueError, TypeError, RecursionError):
            return None
        return journal if journal.version == cls.version and min(journal.lines, journal.bytes) >= 0 else None

    def differences(self, job: Job) -> str:
        """The differences between the job of this journal and another one; empty if they are the same."""
        changed = (
            f"{key} was {self.job.get(key)!r} and is {job.get(key)!r}"
            for key in sorted(self.job.keys() | job.keys())
            if self.job.get(key) != job.get(key)
        )
        return "; ".join(changed)


def job_identity(loaded: LoadedModel, options: DecodeOptions, **others: Any) -> dict[str, Any]:
    """The identity of a job with a model or an ensemble; `others` are what else decides its result.

    Output layer and compute type are those that "auto" means now: `sharpbeam tune` may change it later. Threads,
    schedules and kernel tables other than plain do not decide it. On a GPU, or with the union of sets, the schedule
    does.
    """
    decoding, machine = options.by_name() | {"output_layer": loaded.layer_name(options)}, loaded.machine
    if machine.batch_invariant and options.batch_invariant:
        for name in asdict(options.schedule).keys() - {"max_input_length"}:
            del decoding[name]
    return {
        "program": f"sharpbeam {program_version()}",
        "model": "+".join(map(_fingerprint, loaded.folders)),
        **decoding,
        "device": machine.device,
        "compute_type": machine.compute_type,
        "plain": machine.isa == "plain",
        **machine.shortcuts(),
        **others,
    }


def _fingerprint(folder: Path) -> str:
    """SHA-256 over the names and bytes of the files that decide the model's answers, but for what `tune` chose.

    Gigabytes of weights are not read for it if config.json has their digest.
    """
    digest = hashlib.sha256()
    others = {PRECISION, TUNED, WEIGHTS} if read_facts(folder).digest is not None else {PRECISION, TUNED}
    for path in sorted(folder.iterdir()):
        if path.suffix in (".json", ".safetensors", ".spm") and path.name not in others and path.is_file():
            digest.update(path.name.encode(errors="surrogateescape") + b"\0" + bytes.fromhex(file_digest(path)))
    return digest.hexdigest()
