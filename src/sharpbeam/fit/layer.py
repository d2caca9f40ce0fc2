"""`fit_layer`: one way to fit any output layer."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, Protocol, get_args

from sharpbeam.errors import OptionError, nearest
from sharpbeam.options.schema import fields_of

MODULES = {"preview": "preview", "screen": "screen.job", "shortlist": "shortlist"}
"""The module of `sharpbeam.fit` that fits each layer, of those that are fitted, with its function fit_NAME."""


class LayerFit(Protocol):
    """The outcome of a fit."""

    @property
    def folder(self) -> Path:
        """The model folder, which the artifact was written to."""

    def summary(self) -> str:
        """The artifact, and how good it is on held-out text."""


def fit_layer(layer: str, model: str | Path, **options: Any) -> LayerFit:
    """Fit the output layer `layer` of the model folder `model`, and write its artifact there.

    `layer` is "preview", "screen" or "shortlist". `options` are the flags of `sharpbeam fit LAYER` by name: `text`
    names files with one source sentence a line, `fidelity` is the share of rows to reach, on held-out text with 95%
    confidence; `machine` is a MachineOptions, and `progress` is called with reports. Raises a SharpbeamError, and
    writes nothing, for wrong options, files that cannot be read, and a fidelity that is not reached.
    """
    if layer not in MODULES:
        raise OptionError(f"layer is {layer!r}; it must be {' or '.join(MODULES)}.{nearest(layer, MODULES)}")
    fit: Callable[..., LayerFit] = getattr(import_module(f"sharpbeam.fit.{MODULES[layer]}"), f"fit_{layer}")
    parameters = signature(fit, eval_str=True).parameters
    allowed = [name for name, one in parameters.items() if name != "model" and one.kind != one.VAR_KEYWORD]
    if "options" in parameters:  # whose fields it takes by name
        allowed += fields_of(get_args(parameters["options"].annotation)[0])
    for name in options.keys() - set(allowed):
        raise OptionError(f"{name} is no option of fit {layer}; it has {', '.join(allowed)}.{nearest(name, allowed)}")
    return fit(model, **options)
