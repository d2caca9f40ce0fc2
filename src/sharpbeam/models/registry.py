"""The architectures that a model folder or a recipe may name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Literal

from sharpbeam import _core
from sharpbeam.errors import ModelError, nearest
from sharpbeam.models.gru.config import GruConfig
from sharpbeam.models.gru.tensors import tensor_shapes as gru_shapes
from sharpbeam.models.lstm.config import LstmAttentionConfig
from sharpbeam.models.lstm.tensors import tensor_shapes as lstm_shapes
from sharpbeam.models.lstm_lm.config import LstmLmConfig
from sharpbeam.models.lstm_lm.tensors import tensor_shapes as lstm_lm_shapes
from sharpbeam.models.tensors import Shape, compare_shapes
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.models.transformer.tensors import tensor_shapes as transformer_shapes
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
    module_name: str = ""  # of the class in `module.py`
    load: Callable[[Any, Mapping[str, Floats]], Any] | None = None  # config, tensors -> models.interface.Model
    shortcuts: bool = False  # whether its compiled model takes those of `MachineOptions.shortcuts`

    @property
    def embedding(self) -> str:
        """The tensor that a tied output matrix is."""
        return "target_embedding" if self.task == "translation" else "embedding"

    def module(self, config: Config, dropout: float = 0.0) -> Any:
        """A fresh PyTorch module of `config`. PyTorch is an extra, so the file is read when it is asked for."""
        folder = self.config.__module__.rpartition(".")[0]
        return getattr(import_module(f"{folder}.module"), self.module_name)(config, dropout)


# Name, task, config, tensors, compiled model, decoding run, PyTorch module, and whether it takes shortcuts.
_OWN: tuple[tuple[str, Task, type[Any], Any, Any, Any, str, bool], ...] = (
    ("recurrent", "translation", GruConfig, gru_shapes, _core.GruModel, _core.GruDecoding, "GruModule", True),
    (
        *("lstm-attention", "translation", LstmAttentionConfig, lstm_shapes),
        *(_core.LstmAttention, _core.LstmAttentionDecoding, "LstmAttentionModule", False),
    ),
    (
        *("transformer", "translation", TransformerConfig, transformer_shapes),
        *(_core.Transformer, _core.TransformerDecoding, "TransformerModule", False),
    ),
    ("lstm-lm", "language", LstmLmConfig, lstm_lm_shapes, _core.LstmLm, _core.LstmLmDecoding, "LstmLmModule", False),
)
_ALL: dict[str, Architecture] = {
    name: Architecture(name, task, config, partial(compare_shapes, shapes), core, run, module, shortcuts=shortcuts)
    for name, task, config, shapes, core, run, module, shortcuts in _OWN
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
