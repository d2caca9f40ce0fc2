"""Which job a journal belongs to: everything that decides the bytes of a result, except its input."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sharpbeam.options.decode import DecodeOptions, MachineOptions
from sharpbeam.storage.model_folder import WEIGHTS, read_facts
from sharpbeam.text.lines import file_digest
from sharpbeam.version import program_version


def job_identity(
    folders: Sequence[Path], options: DecodeOptions, machine: MachineOptions, **others: Any
) -> dict[str, Any]:
    """The identity of a job with a model or an ensemble; `others` are what else decides its result.

    Threads, schedules and kernel tables other than plain do not. With PyTorch or a BLAS the schedule does.
    """
    decoding = options.by_name()
    if machine.batch_invariant:
        for name in dataclasses.asdict(options.schedule).keys() - {"max_input_length"}:
            del decoding[name]
    return {
        "program": f"sharpbeam {program_version()}",
        "model": "+".join(map(_fingerprint, folders)),
        **decoding,
        "backend": machine.backend,
        "compute_type": machine.compute_type,
        "plain": machine.isa == "plain",
        **machine.shortcuts(),
        **others,
    }


def _fingerprint(folder: Path) -> str:
    """SHA-256 over the names and bytes of the files that decide what the model returns.

    Gigabytes of weights are not read for it if config.json has their digest, which is checked when they are loaded.
    """
    digest, named = hashlib.sha256(), read_facts(folder).digest is not None
    for path in sorted(folder.iterdir()):
        wanted = path.suffix in (".json", ".safetensors", ".spm") and path.is_file()
        if wanted and not (named and path.name == WEIGHTS):
            digest.update(path.name.encode(errors="surrogateescape") + b"\0" + bytes.fromhex(file_digest(path)))
    return digest.hexdigest()
