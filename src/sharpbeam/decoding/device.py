"""Models and output layers on a GPU: which choices of `device` a model takes. `sharpbeam.gpu` has the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from sharpbeam.errors import OptionError
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.options.schema import require

if TYPE_CHECKING:
    from sharpbeam.models.interface import Model
    from sharpbeam.models.registry import Config
    from sharpbeam.options.machine import MachineOptions
    from sharpbeam.options.search import SearchOptions
    from sharpbeam.output_layers.interface import OutputLayer
    from sharpbeam.output_layers.registry import LayerInputs
    from sharpbeam.types import Floats


def number_type(device: str, configs: Sequence[Config]) -> str:
    """The number type that auto means on a device: float16 where every model is a transformer, else float32."""
    half = device == "cuda" and all(isinstance(config, TransformerConfig) for config in configs)
    return "float16" if half else "float32"


def check_device(machine: MachineOptions, members: int) -> None:
    """Raise OptionError where the device is not there, or cannot have an ensemble of so many members."""
    from sharpbeam.gpu.device import find_device

    find_device(machine.device)
    if members > 1:
        raise OptionError(f"device is {machine.device!r}; it must be cpu for an ensemble.")


def load_on_device(config: Config, tensors: Mapping[str, Floats], machine: MachineOptions) -> Model:
    """A model of float32 `tensors` on the device of `machine`; raises OptionError for what it cannot have there."""
    from sharpbeam.gpu.device import find_device
    from sharpbeam.gpu.model import DeviceModel

    return DeviceModel(config, tensors, find_device(machine.device), machine.compute_type)


def build_on_device(model: Model, name: str, inputs: Callable[[], LayerInputs]) -> OutputLayer:
    """The output layer `name` of a model from `load_on_device`; raises OptionError where there is none."""
    from sharpbeam.gpu.layers import build_layer
    from sharpbeam.gpu.model import DeviceModel

    assert isinstance(model, DeviceModel)
    return build_layer(name, inputs, model.exact)


def check_search(machine: MachineOptions, search: SearchOptions) -> None:
    """Raise OptionError for a search that compares hidden vectors, which stay on the GPU."""
    compares = search.cube_pruning != "none" and search.merge_by != "word"
    require(not compares, "merge_by", search.merge_by, f"word with device {machine.device}")
