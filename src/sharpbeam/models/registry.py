"""The architectures that a model folder or a recipe may name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from sharpbeam import _core
from sharpbeam.errors import ModelError, nearest
from sharpbeam.models.gru import tensors as recurrent
from sharpbeam.models.gru.config import GruConfig
from sharpbeam.models.lstm import tensors as lstm_attention
from sharpbeam.models.lstm.config import LstmAttentionConfig
from sharpbeam.models.lstm_lm import tensors as lstm_lm
from sharpbeam.models.lstm_lm.config import LstmLmConfig
from sharpbeam.models.tensors import Shape
from sharpbeam.models.transformer import tensors as transformer
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
    embedding: str = ""  # the tensor that a tied output matrix is
    # The compiled model, of facts, tensors, a kernel table and how to compute.
    core: Callable[[dict[str, Any], dict[str, Any], str, dict[str, Any]], Any] = _missing
    core_run: Callable[[Any], Any] = _missing  # a decoding run on it: models.native.CoreRun
    module_name: str = ""  # of the class in `module.py`
    load: Callable[[Any, Mapping[str, Floats]], Any] | None = None  # config, tensors -> models.interface.Model

    def module(self, config: Config, dropout: float = 0.0) -> Any:
        """A fresh PyTorch module of `config`. PyTorch is an extra, so the file is read when it is asked for."""
        folder = self.config.__module__.rpartition(".")[0]
        return getattr(import_module(f"{folder}.module"), self.module_name)(config, dropout)


ARCHITECTURES = (
    Architecture(
        "recurrent",
        "translation",
        GruConfig,
        recurrent.check_shapes,
        "target_embedding",
        _core.GruModel,
        _core.GruDecoding,
        "GruModule",
    ),
    Architecture(
        "lstm-attention",
        "translation",
        LstmAttentionConfig,
        lstm_attention.check_shapes,
        "target_embedding",
        _core.LstmAttention,
        _core.LstmAttentionDecoding,
        "LstmAttentionModule",
    ),
    Architecture(
        "transformer",
        "translation",
        TransformerConfig,
        transformer.check_shapes,
        "target_embedding",
        _core.Transformer,
        _core.TransformerDecoding,
        "TransformerModule",
    ),
    Architecture(
        "lstm-lm",
        "language",
        LstmLmConfig,
        lstm_lm.check_shapes,
        "embedding",
        _core.LstmLm,
        _core.LstmLmDecoding,
        "LstmLmModule",
    ),
)


_ALL: dict[str, Architecture] = {architecture.name: architecture for architecture in ARCHITECTURES}


def register_architecture(architecture: Architecture) -> None:
    """Add a kind of model, so that folders of it can be saved and loaded as any other.

    Raises ModelError where its name or its config is another architecture's, or it has no `load`.
    """
    known = _ALL.get(architecture.name)
    if known is not None and known.config is not architecture.config:
        raise ModelError(f"architecture {architecture.name!r} is there already; give another name.")
    if known is None and any(one.config is architecture.config for one in _ALL.values()):
        raise ModelError(f"{architecture.config.__name__} is the config of another architecture; give one of its own.")
    if architecture.load is None:
        raise ModelError(f"architecture {architecture.name!r} has no load; give a function of config and tensors.")
    _ALL[architecture.name] = architecture


def find_architecture(name: object) -> Architecture:
    """The architecture `name`; ModelError where there is none."""
    if not isinstance(name, str) or name not in _ALL:
        hint = nearest(name, _ALL) if isinstance(name, str) else ""
        raise ModelError(f"architecture is {name!r}; it must be one of {', '.join(_ALL)}.{hint}")
    return _ALL[name]


def architecture_of(config: Config) -> Architecture:
    """The architecture whose facts `config` holds."""
    return next(architecture for architecture in _ALL.values() if type(config) is architecture.config)
