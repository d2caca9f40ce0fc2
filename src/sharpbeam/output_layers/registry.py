"""Output layers by name: how each is built for a model.

A name that is registered here is a choice of the option `output_layer`, of `--output-layer` and of `Head`, and is held
to the contract of all layers (tests/contract). `register_output_layer` adds one from outside of the package:

>>> from sharpbeam import register_output_layer
>>> register_output_layer("mine", lambda given: MyLayer(given.weight, given.bias), "my own layer")  # doctest: +SKIP
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from sharpbeam.errors import OptionError, nearest

if TYPE_CHECKING:
    from sharpbeam.output_layers.fitted import Net, Screens, Shortlist
    from sharpbeam.output_layers.interface import OutputLayer
    from sharpbeam.output_layers.proven import LowBit
    from sharpbeam.types import Floats

Artifact = Literal["low_bit", "net", "screens", "shortlist"]


class Artifacts(Protocol):
    """The fitted artifacts of a model. Each call reads it, and raises ModelError where there is no sound one."""

    def low_bit(self) -> LowBit:
        """The low-bit preview of the output matrix."""

    def screens(self) -> Screens:
        """The screen, or one for each target language or direction."""

    def shortlist(self) -> Shortlist:
        """The lexical shortlist."""

    def net(self) -> Net:
        """The safety net of the shortlist."""


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
    backend: str = "native"
    isa: str = "auto"


@dataclass(frozen=True)
class Entry:
    """A registered output layer."""

    build: Callable[[LayerInputs], OutputLayer]
    summary: str
    """One phrase for --help."""
    needs: tuple[Artifact, ...] = ()
    """The fitted artifacts that it reads. A layer that needs none serves ensembles, and `Head` without a folder."""
    by_step: bool = False
    """Whether a row's answer depends on the other rows of its step, so that it changes with the batch."""


def register_output_layer(
    name: str, build: Callable[[LayerInputs], OutputLayer], summary: str = "", *, needs: tuple[Artifact, ...] = ()
) -> None:
    """Make `name` a choice of the option `output_layer`.

    `build` is called once for each model that is asked for the layer, and returns an `output_layers.interface`
    OutputLayer, most simply a class that inherits from `RowLayer`. `summary` is for --help; `needs` are the artifacts
    that it reads from `LayerInputs.artifacts`. Raises OptionError where the name is taken or is no plain name.
    """
    if not name.replace("-", "_").isidentifier():
        raise OptionError(f"name is {name!r}; it must be letters, digits, - and _, and begin with a letter.")
    if name in _ENTRIES:
        raise OptionError(f"name is {name!r}; it must be another: there is an output layer of that name.")
    _ENTRIES[name] = Entry(build, summary, needs)


def output_layers(artifacts: Collection[Artifact] | None = None) -> tuple[str, ...]:
    """The registered names; with `artifacts`, of the layers that need no others."""
    return tuple(name for name, entry in _ENTRIES.items() if artifacts is None or set(entry.needs) <= set(artifacts))


def summaries() -> dict[str, str]:
    """The summary of each registered layer, for --help."""
    return {name: entry.summary for name, entry in _ENTRIES.items()}


def find_output_layer(name: str) -> Entry:
    """The output layer `name`; raises OptionError where there is none."""
    if name not in _ENTRIES:
        raise OptionError(f"output_layer is {name!r}; it must be {' or '.join(_ENTRIES)}.{nearest(name, _ENTRIES)}")
    return _ENTRIES[name]


def _built_in() -> dict[str, Entry]:
    """The layers of this package: those that a file here names in its table `LAYERS`, and builds with `build_layer`.

    Tables are read, not imported: they are for --help too, which should not wait for NumPy and the core.
    """
    found = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        for node in ast.parse(path.read_bytes()).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LAYERS":
                table: dict[str, tuple[Any, ...]] = ast.literal_eval(node.value)
                for name, facts in table.items():  # as the fields of Entry follow `build`
                    found[name] = Entry(partial(_build, path.stem, name), *facts)
    return found


def _build(module: str, name: str, given: LayerInputs) -> OutputLayer:
    layer: OutputLayer = import_module(f"sharpbeam.output_layers.{module}").build_layer(name, given)
    return layer


_ENTRIES = _built_in()
