"""The low-bit preview of a model folder, for the proven output layer: low_bit.safetensors.

It holds the digest of the output weights that it was fitted for. A wrong preview cannot make an answer of the proven
layer wrong, only slow, so that digest is all that is checked next to names and shapes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from sharpbeam.errors import ModelError
from sharpbeam.storage.artifacts import OUTPUT, check_made_for, output_digest
from sharpbeam.storage.atomic import replacing_files
from sharpbeam.types import Floats

FORMAT_VERSION = "4"
FILE = "low_bit.safetensors"
AGAIN = "Fit it with sharpbeam fit-preview, or use another output_layer: exact or scan."


def save_low_bit(
    folder: Path,
    arrays: Mapping[str, NDArray[Any]],
    weight: Floats,
    bias: Floats,
    gains: Mapping[str, float] | None = None,
) -> None:
    """Write `arrays`, fitted for the output `weight` [V, D] and `bias` [V], into the model folder.

    `gains`: times that the proven layer is faster than a scan, by kind of search, where that was measured.
    """
    facts = {
        "format_version": FORMAT_VERSION,
        OUTPUT: output_digest(weight, bias),
        "gains": json.dumps(dict(gains or {})),
    }
    with replacing_files(folder, FILE) as temporary:
        save_file(dict(arrays), temporary / FILE, metadata=facts)


def read_gains(folder: Path, weight: Floats, bias: Floats) -> dict[str, float]:
    """The gains of the folder's low-bit preview, for the output `weight` [V, D], `bias` [V]; {} without a sound one."""
    if not (folder / FILE).is_file():
        return {}
    try:
        gains = json.loads(_read(folder, weight, bias)[1].get("gains", "{}"))
        return {str(name): float(gain) for name, gain in gains.items()}
    except (ModelError, ValueError, TypeError, AttributeError):  # a request for the layer itself says why
        return {}


def read_low_bit(folder: Path, weight: Floats, bias: Floats) -> dict[str, NDArray[Any]]:
    """The arrays of the folder's low-bit preview, for the output `weight` [V, D], `bias` [V]; raises ModelError."""
    return _read(folder, weight, bias)[0]


def _read(folder: Path, weight: Floats, bias: Floats) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Arrays and facts."""
    path = folder / FILE
    if not path.is_file():
        raise ModelError(f"{folder} has no {FILE}, which output_layer 'proven' and 'calibrated' need. {AGAIN}")
    try:
        with safe_open(path, framework="np") as file:
            facts = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read as safetensors ({error}). {AGAIN}") from error
    if facts.get("format_version") != FORMAT_VERSION:
        version = facts.get("format_version")
        raise ModelError(f"{path}: format_version is {version!r}; this Sharpbeam reads {FORMAT_VERSION!r}. {AGAIN}")
    check_made_for(path, facts, {OUTPUT: output_digest(weight, bias)}, AGAIN)
    return arrays, facts
