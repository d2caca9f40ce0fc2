"""Which job a journal belongs to: everything that decides the bytes of a result, except its input."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

from sharpbeam.decoding.loading import LoadedModel
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.storage.model_folder import WEIGHTS, read_facts
from sharpbeam.text.lines import file_digest
from sharpbeam.version import program_version


def job_identity(loaded: LoadedModel, options: DecodeOptions, **others: Any) -> dict[str, Any]:
    """The identity of a job with a model or an ensemble; `others` are what else decides its result.

    Output layer and compute type are those that "auto" means now: `sharpbeam tune` may change it later. Threads,
    schedules and kernel tables other than plain do not decide it. With PyTorch or a BLAS the schedule does.
    """
    decoding, machine = options.by_name() | {"output_layer": loaded.layer_name(options)}, loaded.machine
    if machine.batch_invariant:
        for name in dataclasses.asdict(options.schedule).keys() - {"max_input_length"}:
            del decoding[name]
    return {
        "program": f"sharpbeam {program_version()}",
        "model": "+".join(map(_fingerprint, loaded.folders)),
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
