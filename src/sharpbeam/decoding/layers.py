"""Output layers that look at hidden vectors alone, by name, for an output matrix and what was fitted for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sharpbeam.output_layers.certified import CertifiedLayer
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.fitted import Preview, Screen
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.output_layers.proven import LowBit, ProvenLayer
from sharpbeam.output_layers.scan import ScanLayer
from sharpbeam.output_layers.screen import ScreenLayer
from sharpbeam.storage.low_bit import read_low_bit
from sharpbeam.storage.previews import read_preview
from sharpbeam.storage.screens import read_screen
from sharpbeam.types import Floats

ROW_LAYERS = ("exact", "scan", "proven", "calibrated", "certified", "screen")


def build_row_layer(name: str, folder: Path, weight: Floats, bias: Floats, isa: str = "auto") -> RowLayer:
    """The layer `name`, one of ROW_LAYERS, for the output matrix [V, D] with its bias [V].

    Screen and preview are read from `folder`; raises ModelError where that has no sound one.
    """
    if name == "exact":
        return exact_layer(weight, bias, isa=isa)
    if name == "scan":
        return ScanLayer.build(weight, bias, isa)
    if name in ("proven", "calibrated"):
        low_bit = LowBit.from_arrays(read_low_bit(folder, weight, bias))
        return ProvenLayer.build(weight, bias, low_bit, isa, calibrated=name == "calibrated")
    if name == "certified":
        preview = Preview.from_arrays(read_preview(folder, weight, bias))
        return CertifiedLayer.build(weight, bias, preview, isa)
    screen = read_screen(folder, weight, bias)
    return screened_layer(weight, bias, screen, lambda: ScanLayer.build(weight, bias, isa), isa)


def screened_layer(
    weight: Floats, bias: Floats, screen: Screen, scan: Callable[[], ScanLayer], isa: str = "auto"
) -> ScreenLayer:
    """The output matrix [V, D] with its bias [V] behind `screen`; `scan` gives the layer of the rows that are doubted.

    It is not asked where the screen has no test.
    """
    return ScreenLayer.build(weight, bias, screen, None if screen.fallback is None else scan(), isa)


def exact_layer(weight: Floats, bias: Floats, backend: str = "native", isa: str = "auto") -> RowLayer:
    """All words of the output matrix [V, D] with its bias [V] in float32, natively or in PyTorch."""
    if backend == "native":
        return ExactLayer.build(weight, bias, isa, deferred=True)
    from sharpbeam.output_layers.torch import TorchLayer  # PyTorch is an extra

    return TorchLayer(weight, bias)
