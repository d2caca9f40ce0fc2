"""Journals of interrupted jobs: how far each is, and which job it is; kept next to the part of its result."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sharpbeam.decoding.loading import LoadedModel
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.storage.cache import file_state, read_note, write_note
from sharpbeam.storage.model_folder import WEIGHTS, read_facts
from sharpbeam.text.lines import file_digest
from sharpbeam.version import program_version

Job = Mapping[str, Any]  # all that decides the bytes of a result, except its input: options, model, program version
_FINISHED = "finished"  # kind of the notes about finished files
_NOTHING = hashlib.sha256().hexdigest()


@dataclass(frozen=True)
class Journal:
    """How far the part is."""

    job: dict[str, Any]
    lines: int = 0  # input lines done
    bytes: int = 0  # of the part
    input_sha256: str = field(default=_NOTHING)  # of those input lines
    output_sha256: str = field(default=_NOTHING)  # of those bytes
    version: int = 1

    def save(self, path: Path) -> None:
        """Write next to `path`, wait until it is on the disk, and rename; never through a link that was left there."""
        new = path.with_name(path.name + ".new")
        try:
            new.unlink(missing_ok=True)
            with new.open("x", encoding="utf-8") as file:
                file.write(json.dumps(asdict(self), indent=1) + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, path)
        except OSError:
            new.unlink(missing_ok=True)
            raise

    @classmethod
    def load(cls, path: Path) -> Journal | None:
        """The journal at `path`, or None if there is none that can be read."""
        try:
            return cls._of(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None
        except (OSError, ValueError, RecursionError):
            return None

    @classmethod
    def of_finished(cls, path: Path) -> Journal | None:
        """The last journal of a finished file that has not changed since; None if that is not known."""
        return cls._of(read_note(_FINISHED, path))

    def note_finished(self, path: Path) -> None:
        """Keep this, the last journal of the finished file `path`, in the user's cache."""
        write_note(_FINISHED, path, file_state(path), asdict(self))

    @classmethod
    def _of(cls, record: object) -> Journal | None:
        """The journal that was saved as this; None for anything else, and for one of a later version."""
        try:
            journal = cls(**record)  # type: ignore[arg-type]
        except TypeError:
            return None
        kinds = {"job": dict, "lines": int, "bytes": int, "input_sha256": str, "output_sha256": str, "version": int}
        fits = all(type(getattr(journal, name)) is kind for name, kind in kinds.items())
        return journal if fits and journal.version == cls.version and min(journal.lines, journal.bytes) >= 0 else None

    def differences(self, job: Job) -> str:
        """The differences between the job of this journal and another one; empty if they are the same."""
        changed = (
            f"{key} was {self.job.get(key)!r} and is {job.get(key)!r}"
            for key in sorted(self.job.keys() | job.keys())
            if self.job.get(key) != job.get(key)
        )
        return "; ".join(changed)


class LinesDigest:
    """SHA-256 of input lines, as journals have it."""

    def __init__(self, lines: Iterable[str] = ()) -> None:
        self._digest = hashlib.sha256()
        for line in lines:
            self.add(line)

    def add(self, line: str) -> None:
        """Count one line more."""
        self._digest.update(line.encode() + b"\n")

    def hex(self) -> str:
        """The digest of the lines so far, in hexadecimal digits."""
        return self._digest.hexdigest()


def job_identity(loaded: LoadedModel, options: DecodeOptions, **others: Any) -> dict[str, Any]:
    """The identity of a job with a model or an ensemble; `others` are what else decides its result.

    Output layer and compute type are those that "auto" means now: `sharpbeam tune` may change it later. Threads,
    schedules and kernel tables other than plain do not decide it. On a GPU or with a BLAS the schedule does.
    """
    decoding, machine = options.by_name() | {"output_layer": loaded.layer_name(options)}, loaded.machine
    if machine.batch_invariant:
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
    """SHA-256 over the names and bytes of the files that decide the model's answers.

    Gigabytes of weights are not read for it if config.json has their digest, which is checked when they are loaded.
    """
    digest, named = hashlib.sha256(), read_facts(folder).digest is not None
    for path in sorted(folder.iterdir()):
        hashed = path.suffix in (".json", ".safetensors", ".spm") and path.is_file()
        if hashed and not (named and path.name == WEIGHTS):
            digest.update(path.name.encode(errors="surrogateescape") + b"\0" + bytes.fromhex(file_digest(path)))
    return digest.hexdigest()
