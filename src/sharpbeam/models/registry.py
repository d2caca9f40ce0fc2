"""The architectures that a model folder or a recipe may name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from sharpbeam import _core
from sharpbeam.errors import ModelError, nearest
from sharpbeam.models.config import Shape, compare_shapes
from sharpbeam.models.gru.config import GruConfig
from sharpbeam.models.lstm.config import LstmAttentionConfig
from sharpbeam.models.lstm_lm.config import LstmLmConfig
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.types import Floats

TranslationConfig = GruConfig | LstmAttentionConfig | TransformerConfig
Config = TranslationConfig | LstmLmConfig
Task = Literal["translation", "language"]


def _missing(*_: Any) -> Any:
    raise ModelError("this architecture has no compiled model; it is loaded by its own function.")


@dataclass(frozen=True)
class Architecture:
    """One kind of model. Those of this package have a compiled model and a PyTorch module; others have `load`.

    `config` is a frozen dataclass of plain values with source_vocab_size, target_vocab_size, unk_id, bos_id, eos_id and
    pad_id, and a property `footprint` (types.Footprint); it raises ModelError for values that make no sense.
    """

    name: str  # in config.json and in recipes
    task: Task
    config: type[Any]
    check_shapes: Callable[[Any, Mapping[str, Shape]], None]  # raises ModelError unless names and shapes fit a config
    # The compiled model, of facts, tensors, a kernel table and how to compute.
    core: Callable[[dict[str, Any], dict[str, Any], str, dict[str, Any]], Any] = _missing
    core_run: Callable[[Any], Any] = _missing  # a decoding run on it: models.native.CoreRun
    load: Callable[[Any, Mapping[str, Floats]], Any] | None = None  # config, tensors -> models.interface.Model
    shortcuts: bool = False  # whether its compiled model takes those of `MachineOptions.shortcuts`

    @property
    def embedding(self) -> str:
        """The tensor that a tied output matrix is."""
        return "target_embedding" if self.task == "translation" else "embedding"

    def module(self, config: Config, dropout: float = 0.0) -> Any:
        """A fresh PyTorch module of `config`. PyTorch is an extra, so the file is read when it is asked for."""
        folder, name = self.config.__module__.rpartition(".")[0], self.config.__name__.replace("Config", "Module")
        return getattr(import_module(f"{folder}.module"), name)(config, dropout)


def _own(name: str, config: type[Any], core: Any, core_run: Any, *, shortcuts: bool = False) -> Architecture:
    """An architecture of this package."""
    task: Task = "language" if config is LstmLmConfig else "translation"
    return Architecture(name, task, config, compare_shapes, core, core_run, shortcuts=shortcuts)


_ALL = {
    one.name: one
    for one in (
        _own("recurrent", GruConfig, _core.GruModel, _core.GruDecoding, shortcuts=True),
        _own("lstm-attention", LstmAttentionConfig, _core.LstmAttention, _core.LstmAttentionDecoding),
        _own("transformer", TransformerConfig, _core.Transformer, _core.TransformerDecoding),
        _own("lstm-lm", LstmLmConfig, _core.LstmLm, _core.LstmLmDecoding),
    )
}


def register_architecture(architecture: Architecture) -> None:
    """Add a kind of model, so that folders of it can be saved and loaded as any other.

    Raises ModelError if its name or its config is another architecture's, or it has no `load`.
    """
    registered = _ALL.get(architecture.name)
    if registered is not None and registered.config is not architecture.config:
        raise ModelError(f"architecture {architecture.name!r} is there already; give another name.")
    if registered is None and any(one.config is architecture.config for one in _ALL.values()):
        raise ModelError(f"{architecture.config.__name__} is the config of another architecture; give one of its own.")
    if architecture.load is None:
        raise ModelError(f"architecture {architecture.name!r} has no load; give a function of config and tensors.")
    _ALL[architecture.name] = architecture


def find_architecture(name: object) -> Architecture:
    """The architecture `name`; ModelError if there is none."""
    if not isinstance(name, str) or name not in _ALL:
        hint = nearest(name, _ALL) if isinstance(name, str) else ""
        raise ModelError(f"architecture is {name!r}; it must be one of {', '.join(_ALL)}.{hint}")
    return _ALL[name]


def architecture_of(config: Config) -> Architecture:
    """The architecture whose facts `config` holds."""
    return next(architecture for architecture in _ALL.values() if type(config) is architecture.config)
