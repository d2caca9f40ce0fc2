"""A model in PyTorch by the model interface, in float32: the reference of the native one, for all architectures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from sharpbeam.models.registry import Config, architecture_of
from sharpbeam.models.torch.language import TorchLanguage
from sharpbeam.models.torch.translation import TorchTranslation
from sharpbeam.types import Floats

DECODINGS: dict[str, Any] = {"translation": TorchTranslation, "language": TorchLanguage}


class TorchModel:
    """`models.interface.Model` over an architecture's PyTorch module."""

    def __init__(self, config: Config, tensors: Mapping[str, Floats]) -> None:
        """Copy `tensors` (float32, names and shapes as `tensor_shapes`); ModelError if they do not fit."""
        architecture = architecture_of(config)
        architecture.check_shapes(config, {name: tensor.shape for name, tensor in tensors.items()})
        self.config, self.bos_id, self.eos_id = config, config.bos_id, config.eos_id
        self.module = architecture.module(config)
        self.module.load_state_dict({name: torch.tensor(tensor) for name, tensor in tensors.items()})
        self.module.requires_grad_(False).eval()
        self._decoding = DECODINGS[architecture.task]

    def output(self) -> tuple[Floats, Floats]:
        """Output matrix [V, D] and bias [V], float32."""
        weight, bias = self.module.output()
        return weight.numpy(), bias.numpy()

    def open(self) -> TorchTranslation | TorchLanguage:
        """Fresh caches for one decoding run."""
        run: TorchTranslation | TorchLanguage = self._decoding(self.module)
        return run
