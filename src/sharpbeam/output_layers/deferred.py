"""The exact output layer, packed when it is first asked for: whoever chose another layer need not pay for it."""

from __future__ import annotations

from threading import Lock

from sharpbeam._core import LayerRun
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.types import Floats, Ids, TopK


class DeferredExact(RowLayer):
    """`ExactLayer` of a weight [V, D] and bias [V], which are kept; any number of threads may share one."""

    def __init__(self, weight: Floats, bias: Floats, isa: str = "auto") -> None:
        self._arrays, self._isa = (weight, bias), isa
        self._layer: ExactLayer | None = None
        self._lock = Lock()
        self.vocab_size = len(weight)

    @property
    def layer(self) -> ExactLayer:
        """The layer itself."""
        if self._layer is None:
            with self._lock:
                self._layer = self._layer or ExactLayer.build(*self._arrays, self._isa)
        return self._layer

    def unnormalised(self) -> ExactLayer:
        """The same layer with logits for log probabilities: `Normalising`."""
        return self.layer.unnormalised()

    def core_run(self) -> LayerRun:
        """A run in the compiled core."""
        return self.layer.core_run()

    def topk(self, hidden: Floats, k: int) -> TopK:
        """The k best tokens of each row of `hidden` [R, D], ties by lower id; ValueError unless 1 <= k <= V."""
        return self.layer.topk(hidden, k)

    def log_prob(self, hidden: Floats, token: Ids) -> Floats:
        """Log probability [R] of the given token [R] of each row: the same bits as from `topk`."""
        return self.layer.log_prob(hidden, token)
