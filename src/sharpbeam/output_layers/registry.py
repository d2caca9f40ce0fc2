"""Output layers by name: how each is built for a model.

A name that is registered here is a choice of the option `output_layer`, of `--output-layer` and of `Head`, and is held
to the contract of all layers (tests/contract). `register_output_layer` adds one from outside of the package:

>>> from sharpbeam import register_output_layer
>>> register_output_layer("mine", lambda given: MyLayer(given.weight, given.bias), "my own layer")  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, cast

from sharpbeam.errors import OptionError, nearest

if TYPE_CHECKING:  # the names are for --help too, which should not wait for NumPy and the core
    from sharpbeam.output_layers.fitted import Screen, Screens, Shortlist
    from sharpbeam.output_layers.interface import OutputLayer, RowLayer
    from sharpbeam.output_layers.native import AnyNativeLayer, AnyNativeRowLayer
    from sharpbeam.output_layers.proven import LowBit
    from sharpbeam.output_layers.shortlist import Join
    from sharpbeam.types import Floats

Artifact = Literal["low_bit", "screens", "shortlist"]


class Artifacts(Protocol):
    """The fitted artifacts of a model. Each call reads it, and raises ModelError where there is no sound one."""

    def low_bit(self) -> LowBit:
        """The low-bit preview of the output matrix."""

    def screens(self) -> Screens:
        """The screen, or one for each target language or direction."""

    def shortlist(self) -> Shortlist:
        """The lexical shortlist."""


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


def exact_layer(weight: Floats, bias: Floats, backend: str = "native", isa: str = "auto") -> RowLayer:
    """The exact layer for the output matrix [V, D] with its bias [V], which is packed when it is first used."""
    if backend == "torch":
        from sharpbeam.output_layers.torch import TorchLayer  # PyTorch is an extra

        return TorchLayer(weight, bias)
    from sharpbeam.output_layers.exact import ExactLayer

    return ExactLayer.build(weight, bias, isa, deferred=True)


def _exact(given: LayerInputs) -> RowLayer:
    return exact_layer(given.weight, given.bias, given.backend, given.isa)


def _scan(given: LayerInputs) -> RowLayer:
    from sharpbeam.output_layers.scan import ScanLayer

    return ScanLayer.build(given.weight, given.bias, given.isa)


def _proven(*, calibrated: bool) -> Callable[[LayerInputs], RowLayer]:
    def build(given: LayerInputs) -> RowLayer:
        from sharpbeam.output_layers.proven import ProvenLayer

        low_bit = given.artifacts.low_bit()
        return ProvenLayer.build(given.weight, given.bias, low_bit, given.isa, calibrated=calibrated)

    return build


def _screen(given: LayerInputs) -> OutputLayer:
    from sharpbeam.output_layers.by_language import for_screens
    from sharpbeam.output_layers.screen import ScreenLayer

    def build(screen: Screen) -> AnyNativeLayer:
        scan = None if screen.fallback is None else cast("AnyNativeRowLayer", given.layer("scan"))
        return ScreenLayer.build(given.weight, given.bias, screen, scan, given.isa)

    return for_screens(given.artifacts.screens(), build)


def _screen_alone(given: LayerInputs) -> OutputLayer:
    from dataclasses import replace

    from sharpbeam.output_layers.by_language import for_screens
    from sharpbeam.output_layers.screen import ScreenLayer

    def build(screen: Screen) -> AnyNativeLayer:
        return ScreenLayer.build(
            given.weight, given.bias, replace(screen, residual=None, fallback=None), None, given.isa
        )

    return for_screens(given.artifacts.screens(), build)


def _screen_union(given: LayerInputs) -> OutputLayer:
    from sharpbeam.output_layers.by_language import for_screens
    from sharpbeam.output_layers.screen import ScreenUnionLayer

    return for_screens(
        given.artifacts.screens(), lambda screen: ScreenUnionLayer(given.weight, given.bias, screen, given.isa)
    )


def _shortlist(given: LayerInputs) -> OutputLayer:
    from sharpbeam.output_layers.shortlist import ShortlistLayer

    return ShortlistLayer(given.weight, given.bias, given.artifacts.shortlist(), given.isa)


def _joined(join: Join) -> Callable[[LayerInputs], OutputLayer]:
    def build(given: LayerInputs) -> OutputLayer:
        from sharpbeam.output_layers.by_language import for_screens
        from sharpbeam.output_layers.shortlist import JoinedLayer

        shortlist = given.artifacts.shortlist()
        return for_screens(
            given.artifacts.screens(),
            lambda screen: JoinedLayer(given.weight, given.bias, screen, shortlist, join, given.isa),
        )

    return build


_ENTRIES: dict[str, Entry] = {
    "exact": Entry(_exact, "every token is scored in float32"),
    "scan": Entry(_scan, "the same tokens, from int8 scores of all"),
    "proven": Entry(
        _proven(calibrated=False), "the same from a 4-bit preview of each token (see fit-preview)", ("low_bit",)
    ),
    "calibrated": Entry(_proven(calibrated=True), "nearly the same, faster", ("low_bit",)),
    "screen": Entry(_screen, "from those that the model's screen picks (see fit-screen)", ("screens",)),
    "screen-alone": Entry(
        _screen_alone, "from the row's set alone, as published: others have probability 0, none fall back", ("screens",)
    ),
    "screen-union": Entry(
        _screen_union, "from the sets of all rows of a step, as published: changes with the batch", ("screens",), True
    ),
    "shortlist": Entry(
        _shortlist, "from the likely translations of the source's tokens (see fit-shortlist)", ("shortlist",)
    ),
    "screen-and-shortlist": Entry(_joined("and"), "from those in both", ("screens", "shortlist")),
    "screen-or-shortlist": Entry(_joined("or"), "from those in either", ("screens", "shortlist")),
}
