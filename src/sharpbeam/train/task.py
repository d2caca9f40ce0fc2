"""The interface of a training task: the text, the model, the loss and the measure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from torch import Tensor, nn

from sharpbeam.train.checkpoint import Progress


class TrainingTask(Protocol):
    """A model in training with its text: to be inherited from."""

    measure: tuple[str, str]  # key of the figure that decides which model is best, and its readable name
    config: Any  # the facts of the model
    vocabularies: dict[str, bytes]  # files of the model folder

    def module(self) -> nn.Module:
        """A fresh model with dropout, on the CPU; draws from PyTorch's random numbers."""

    def epoch(self, epoch: int, skip: int) -> Iterator[Any]:
        """The batches of an epoch without the first `skip`; the same arguments give the same."""

    def loss(self, model: Any, batch: Any) -> tuple[Tensor, int]:
        """The sums of `output_loss` [4] over a batch, the first one with a gradient, and its number of words."""

    def carried(self) -> dict[str, Tensor]:
        """The state that one batch hands to the next, by default none; belongs into the checkpoint."""
        return {}

    def carry(self, tensors: dict[str, Tensor]) -> None:
        """Restore what `carried` returned."""
        return None

    def validate(self, weights: dict[str, Tensor]) -> dict[str, float]:
        """Figures of a model on the validation text: `valid_nll`, nats for each word, and the one of `measure`."""

    def better(self, figures: dict[str, float], progress: Progress) -> bool:
        """Whether these are the best figures so far, which `progress` then keeps."""
