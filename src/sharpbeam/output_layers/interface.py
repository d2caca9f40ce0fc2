"""The door of the output layers' room: hidden vectors to candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from sharpbeam._core import LayerRun
from sharpbeam.types import Floats, Ids, Request, TopK


class OutputLayerRun(Protocol):
    """An output layer in one decoding run. `hidden` is [R, D] float32; `request` [R] names the request of each row.

    A row's answer depends on that row and on the source and the languages of its request only.
    """

    def admit(self, requests: Sequence[Request]) -> None:
        """Prepare for rows of `requests`."""

    def topk(self, hidden: Floats, k: int, request: Ids) -> TopK:
        """The k best tokens of each row with their log probabilities; 1 <= k <= V, ties by lower id."""

    def log_prob(self, hidden: Floats, token: Ids, request: Ids) -> Floats:
        """Log probability of the given token of each row, [R] float32: for forced scores."""

    def evict(self, request: Ids) -> None:
        """Forget the requests named by index, [n] int32."""


class OutputLayer(Protocol):
    """An output layer, exact or screened: weights that any number of decoding runs share."""

    vocab_size: int

    def open(self) -> OutputLayerRun:
        """The layer in a new decoding run."""


@runtime_checkable
class Normalising(Protocol):
    """An output layer whose normaliser can be left out."""

    def unnormalised(self) -> OutputLayer:
        """The same layer with logits for log probabilities, as self-normalised models allow (CUBE eq. 12)."""


class RowLayer(OutputLayer, Protocol):
    """An output layer that looks at hidden vectors alone, so that no run has anything to keep: to be inherited from."""

    def topk(self, hidden: Floats, k: int) -> TopK:
        """The k best tokens of each row of `hidden` [R, D] with their log probabilities; ties by lower id."""

    def log_prob(self, hidden: Floats, token: Ids) -> Floats:
        """Log probability of the given token of each row, [R] float32."""

    def open(self) -> OutputLayerRun:
        """This layer, whatever the request."""
        return _AnyRequest(self)

    def core_run(self) -> LayerRun | None:
        """A run of this layer in the compiled core, for a search that takes whole turns there; None if it has none."""
        return None


class _AnyRequest:
    """A decoding run in which all requests are alike."""

    def __init__(self, output_layer: RowLayer) -> None:
        self._output_layer, self.core = output_layer, output_layer.core_run()

    def admit(self, requests: Sequence[Request]) -> None:
        """Nothing is kept."""

    def topk(self, hidden: Floats, k: int, request: Ids) -> TopK:
        """As the output layer's."""
        return self._output_layer.topk(hidden, k)

    def log_prob(self, hidden: Floats, token: Ids, request: Ids) -> Floats:
        """As the output layer's."""
        return self._output_layer.log_prob(hidden, token)

    def evict(self, request: Ids) -> None:
        """Nothing is kept."""
