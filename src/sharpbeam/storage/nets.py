"""The safety net of a model folder's shortlist: net.safetensors and net.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sharpbeam.errors import ModelError
from sharpbeam.output_layers.fitted import Net
from sharpbeam.storage.artifacts import OUTPUT, Fitted, output_digest
from sharpbeam.storage.shortlists import SHORTLIST
from sharpbeam.types import Floats

NET = Fitted("net", 1, "fit-net", "--text FILE")
_ARRAYS, _NUMBERS = ("inner", "bias", "outer", "direct"), ("threshold", "most_share")


def save_net(folder: Path, net: Net, weight: Floats, bias: Floats, facts: Mapping[str, Any]) -> None:
    """Write `net` of the shortlist in the model folder; `facts` say what it was fitted on, and what was measured."""
    arrays, numbers = ({name: getattr(net, name) for name in names} for names in (_ARRAYS, _NUMBERS))
    NET.save(folder, arrays, _identity(folder, weight, bias), {**numbers, **facts})


def read_net(folder: Path, weight: Floats, bias: Floats) -> Net:
    """The net in the model folder, for the output `weight` [V, D], `bias` [V] and its shortlist; raises ModelError."""
    facts, arrays = NET.read(folder, _identity(folder, weight, bias))
    path, units = folder / NET.tensors, arrays.get("bias", np.empty(0)).size
    for name, shape in zip(_ARRAYS, ((units, weight.shape[1]), (units,), (2, units), (2, 3)), strict=True):
        array = arrays.get(name, np.empty(0))
        if not units or array.shape != shape or array.dtype != np.float32 or not np.isfinite(array).all():
            raise ModelError(f"{path}: {name} must be finite float32 {list(shape)}, of 1 unit or more. {NET.again}")
    for name in _NUMBERS:
        value = facts.get(name)
        if not isinstance(value, float) or not np.isfinite(value):
            raise ModelError(f"{folder / NET.facts}: {name} is {value!r}; it must be a finite number. {NET.again}")
    inner, bias_, outer, direct = (arrays[name] for name in _ARRAYS)
    return Net(inner, bias_, outer, direct, facts["threshold"], facts["most_share"])


def _identity(folder: Path, weight: Floats, bias: Floats) -> dict[str, str]:
    """Digests of the output and of the shortlist, which a net is for."""
    digest = f"{SHORTLIST.name}_sha256"
    return {OUTPUT: output_digest(weight, bias), digest: str(SHORTLIST.read_facts(folder).get(digest))}
