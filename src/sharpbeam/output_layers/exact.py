"""The exact output layer: log softmax over all words, then the k best."""

from __future__ import annotations

from sharpbeam import _core
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.types import Floats, Ids, TopK


class ExactLayer(RowLayer):
    """Product, bias, log-sum-exp and top k in one native call; any number of threads may share one.

    A row's answer has the same bits whatever the rows around it and the kernel table.
    """

    def __init__(self, native: _core.ExactLayer, normalise: bool = True) -> None:
        self._native, self._normalise = native, normalise
        self.vocab_size = native.vocab_size

    @classmethod
    def build(cls, weight: Floats, bias: Floats, isa: str = "auto") -> ExactLayer:
        """Pack the output matrix [V, D] and its bias [V], both float32 and C-contiguous, for a table of kernels.

        Raises ValueError for arrays that do not fit, and for an `isa` that this machine cannot run.
        """
        return cls(_core.ExactLayer(weight, bias, isa))

    def unnormalised(self) -> ExactLayer:
        """The same layer with logits for log probabilities: `Normalising`."""
        return ExactLayer(self._native, normalise=False)

    def core_run(self) -> _core.LayerRun:
        """A run in the compiled core."""
        return self._native.open(self._normalise)

    def topk(self, hidden: Floats, k: int) -> TopK:
        """The k best tokens of each row of `hidden` [R, D], ties by lower id; ValueError unless 1 <= k <= V."""
        return TopK(*self._native.topk(hidden, k, self._normalise))

    def log_prob(self, hidden: Floats, token: Ids) -> Floats:
        """Log probability [R] of the given token [R] of each row: the same bits as from `topk`."""
        return self._native.log_prob(hidden, token, self._normalise)
