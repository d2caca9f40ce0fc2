"""Output layers by name: the one list of them, and how each is built for a model.

A name that is registered here is a choice of the option `output_layer`, of `--output-layer` and of `Head`, and is held
to the contract of all layers (tests/contract). `register_output_layer` adds one from outside of the package:

>>> from sharpbeam import register_output_layer
>>> register_output_layer("mine", lambda inputs: MyLayer(inputs.weight, inputs.bias), "my own layer")  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sharpbeam.errors import OptionError, nearest

if TYPE_CHECKING:
    from sharpbeam.options.decode import OutputLayerOptions
    from sharpbeam.output_layers.artifact import Artifact
    from sharpbeam.output_layers.interface import OutputLayer
    from sharpbeam.types import Floats


class Artifacts(Protocol):
    """The fitted artifacts of a model, by name."""

    def read(self, name: str) -> Any:
        """The artifact; raises ModelError where there is no sound one."""

    def has(self, name: str) -> bool:
        """Whether `read` would return one."""


@dataclass(frozen=True)
class LayerInputs:
    """The parts that a layer can be built from."""

    weight: Floats
    """Output matrix [V, D], float32, C-contiguous; shared, not to be written to."""
    bias: Floats
    """[V] float32."""
    artifacts: Artifacts
    folder: Path
    """The model folder, for what a layer from outside of the package keeps there."""
    layer: Callable[[str], OutputLayer]
    """Another layer of the same model, by name; each is built once."""
    isa: str = "auto"
    options: OutputLayerOptions = field(
        default_factory=lambda: import_module("sharpbeam.options.decode").OutputLayerOptions()
    )
    """The options of the request, such as `fidelity`."""


@dataclass(frozen=True)
class LayerEntry:
    """A registered output layer."""

    build: Callable[[LayerInputs], OutputLayer]
    summary: str
    """One phrase for --help."""
    needs: tuple[str, ...] = ()
    """The fitted artifacts that it reads. A layer that needs none serves ensembles, and `Head` without a folder."""
    can_use: tuple[str, ...] = ()
    """Artifacts that it reads where they are there."""
    on_gpu: bool = False
    """Whether `sharpbeam.gpu` has it too."""


def _own(module: str) -> Callable[[LayerInputs], OutputLayer]:
    """`build_layer` of a module of ours, which is imported then: --help should not wait for NumPy and the core."""

    def build(inputs: LayerInputs) -> OutputLayer:
        layer: OutputLayer = import_module(f"sharpbeam.output_layers.{module}").build_layer(inputs)
        return layer

    return build


_LAYERS = {
    "exact": LayerEntry(_own("exact"), "every token in float32", on_gpu=True),
    "scan": LayerEntry(_own("scan"), "the same top tokens, proven, from int8 scores of all tokens"),
    "preview": LayerEntry(
        _own("preview"),
        "nearly the same, measured, by look-up of 4-bit codes (fit preview)",
        ("preview",),
    ),
    "screen": LayerEntry(
        _own("screen"),
        "the tokens that the row's cluster needs (fit screen)",
        ("screen",),
        on_gpu=True,
    ),
    "shortlist": LayerEntry(
        _own("shortlist"),
        "likely translations of the source (fit shortlist)",
        ("shortlist",),
        ("shortlist_test",),
    ),
}
ARTIFACTS = {name: name for name in ("preview", "screen", "shortlist")} | {"shortlist_test": "shortlist"}
"""The fitted artifacts, each with the module that declares it."""


def register_output_layer(
    name: str, build: Callable[[LayerInputs], OutputLayer], summary: str = "", *, needs: tuple[str, ...] = ()
) -> None:
    """Make `name` a choice of the option `output_layer`.

    `build` is called once for each model that is asked for the layer, and returns an `output_layers.interface`
    OutputLayer, most simply a class that inherits from `RowLayer`. `summary` is for --help; `needs` are the artifacts
    that it reads from `LayerInputs.artifacts`. Raises OptionError if the name is taken or is not a valid identifier.
    """
    if not name.replace("-", "_").isidentifier():
        raise OptionError(f"name is {name!r}; it must be letters, digits, - and _, and begin with a letter.")
    if name in _LAYERS:
        raise OptionError(f"name is {name!r}; it must be another: there is an output layer of that name.")
    _LAYERS[name] = LayerEntry(build, summary, needs)


def output_layers(artifacts: Collection[str] | None = None) -> tuple[str, ...]:
    """The registered names; with `artifacts`, of the layers that need no others."""
    return tuple(name for name, entry in _LAYERS.items() if artifacts is None or set(entry.needs) <= set(artifacts))


def summaries() -> dict[str, str]:
    """The summary of each registered layer, for --help."""
    return {name: entry.summary for name, entry in _LAYERS.items()}


def find_output_layer(name: str) -> LayerEntry:
    """The output layer `name`; raises OptionError if there is none."""
    if name not in _LAYERS:
        raise OptionError(f"output_layer is {name!r}; it must be {' or '.join(_LAYERS)}.{nearest(name, _LAYERS)}")
    return _LAYERS[name]


def find_artifact(name: str) -> Artifact:
    """The declaration of the artifact `name`."""
    artifact: Artifact = import_module(f"sharpbeam.output_layers.{ARTIFACTS[name]}").ARTIFACTS[name]
    return artifact
