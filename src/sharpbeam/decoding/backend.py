"""Read a model folder and hand its weights to a backend."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from sharpbeam.errors import OptionError
from sharpbeam.models.gru.config import GruConfig
from sharpbeam.models.interface import Model
from sharpbeam.models.native import NativeModel
from sharpbeam.options.machine import MachineOptions
from sharpbeam.options.schema import require
from sharpbeam.storage.model_folder import read_config, read_tensors


def load_model(
    folder: Path, backend: str = "native", isa: str = "auto", compute_type: str = "float32", **shortcuts: Any
) -> Model:
    """The model in `folder` on `backend`: "native", or "torch" (the PyTorch twin, which
    ignores `isa` and computes in float32). `shortcuts` are those of NativeModel.

    Raises ModelError where the folder is not a sound model, OptionError where this machine lacks backend or `isa`, and
    for shortcuts that this model or backend cannot take.
    """
    if backend not in ("native", "torch"):
        raise OptionError(f"backend is {backend!r}; it must be native or torch.")
    if backend == "torch" and importlib.util.find_spec("torch") is None:
        raise OptionError("backend 'torch' needs PyTorch, which is not installed; run: pip install 'sharpbeam[train]'")
    config = read_config(folder)
    takes = backend == "native" and isinstance(config, GruConfig)
    for name, default in MachineOptions().shortcuts().items():
        given = shortcuts.get(name, default)
        require(takes or given == default, name, given, f"{default} but for GRU models with backend native")
    kept, words = shortcuts.get("precomputed_embeddings", 0), config.target_vocab_size
    require(kept <= words, "precomputed_embeddings", kept, f"at most {words}, the words that the model can say")
    tensors = read_tensors(folder, config)
    if backend == "native":
        model = NativeModel(config, tensors, isa, compute_type, **shortcuts)
        tensors.forget()  # what it packed
        return model
    from sharpbeam.models.torch.model import TorchModel  # PyTorch is an extra

    return TorchModel(config, tensors)
