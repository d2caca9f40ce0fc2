"""The architectures that a model folder or a recipe may name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from quickbeam.errors import ModelError, nearest
from quickbeam.models.door import Model
from quickbeam.models.lstm_lm import tensors as lstm_lm
from quickbeam.models.lstm_lm.config import LstmLmConfig
from quickbeam.models.recurrent import tensors as recurrent
from quickbeam.models.recurrent.config import RecurrentConfig
from quickbeam.models.shapes import Shape
from quickbeam.types import Floats

Config = RecurrentConfig | LstmLmConfig
Task = Literal["translation", "language"]


@dataclass(frozen=True)
class Architecture:
    """One kind of model. Its folder in this room has the modules `native` and `torch_model`, loaded when used."""

    name: str  # in config.json and in recipes
    task: Task
    config: type[Config]
    check_shapes: Callable[[Any, Mapping[str, Shape]], None]

    def native(self, config: Config, tensors: Mapping[str, Floats], isa: str) -> Model:
        """The model on the compiled core, with a table of kernels."""
        model: Model = self._module("native").NativeModel(config, tensors, isa)
        return model

    def torch(self, config: Config, tensors: Mapping[str, Floats]) -> Model:
        """The model on PyTorch."""
        model: Model = self._module("torch_model").TorchModel(config, tensors)
        return model

    def _module(self, name: str) -> Any:
        return import_module(self.config.__module__.rpartition(".")[0] + "." + name)


ARCHITECTURES = (
    Architecture("recurrent", "translation", RecurrentConfig, recurrent.check_shapes),
    Architecture("lstm-lm", "language", LstmLmConfig, lstm_lm.check_shapes),
)


def find_architecture(name: object) -> Architecture:
    """The architecture `name`; ModelError where there is none."""
    names = {architecture.name: architecture for architecture in ARCHITECTURES}
    if not isinstance(name, str) or name not in names:
        hint = nearest(name, names) if isinstance(name, str) else ""
        raise ModelError(f"architecture is {name!r}; it must be one of {', '.join(names)}.{hint}")
    return names[name]


def architecture_of(config: Config) -> Architecture:
    """The architecture whose facts `config` holds."""
    return next(architecture for architecture in ARCHITECTURES if type(config) is architecture.config)
