"""The exact output layer in PyTorch: the twin that the native one is compared with, and timed against."""

from __future__ import annotations

from copy import copy

import numpy as np
import torch

from sharpbeam.errors import OptionError
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.types import Floats, Ids, TopK


class TorchLayer(RowLayer):
    """Product, bias, log softmax and top k as a user of PyTorch would write them, with our order of ties."""

    def __init__(self, weight: Floats, bias: Floats) -> None:
        """Output matrix [V, D] and bias [V], float32."""
        self._weight, self._bias = torch.from_numpy(weight).t(), torch.from_numpy(bias)
        self.vocab_size = len(weight)
        self._normalise = True

    def unnormalised(self) -> TorchLayer:
        """The same layer with logits for log probabilities: `Normalising`."""
        other = copy(self)
        other._normalise = False
        return other

    @torch.inference_mode()
    def topk(self, hidden: Floats, k: int) -> TopK:
        """The k best tokens of each row of `hidden` [R, D], ties by lower id; OptionError unless 1 <= k <= V."""
        if not 1 <= k <= self.vocab_size:
            raise OptionError(f"k is {k}; it must be from 1 to the vocabulary size, {self.vocab_size}")
        every = self._log_softmax(hidden)
        best, index = torch.topk(every, k)
        log_prob, token = best.numpy(), index.numpy().astype(np.int32)
        if not (np.diff(log_prob) < 0).all() or bool(((every >= best[:, -1:]).sum(1) > k).any()):  # there are ties
            token = (-every.numpy()).argsort(axis=1, kind="stable")[:, :k].astype(np.int32)
            log_prob = np.take_along_axis(every.numpy(), token, axis=1)
        return TopK(log_prob, token)

    @torch.inference_mode()
    def log_prob(self, hidden: Floats, token: Ids) -> Floats:
        """Log probability [R] of the given token [R] of each row."""
        found: Floats = self._log_softmax(hidden).gather(1, torch.from_numpy(token).long()[:, None])[:, 0].numpy()
        return found

    def _log_softmax(self, hidden: Floats) -> torch.Tensor:
        logits = torch.addmm(self._bias, torch.from_numpy(hidden), self._weight)
        return torch.log_softmax(logits, dim=1) if self._normalise else logits
