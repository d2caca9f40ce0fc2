"""The exact output layer: log softmax over all words, then the k best."""

from __future__ import annotations

import numpy as np

from sharpbeam import _core
from sharpbeam.errors import OptionError
from sharpbeam.kernels import reference
from sharpbeam.projections.door import RowProjection
from sharpbeam.types import Floats, Ids, TopK


class ExactProjection(RowProjection):
    """Product, bias, log-sum-exp and top k in one native call; any number of threads may share one.

    A row's answer has the same bits whatever the rows around it and the kernel table.
    """

    def __init__(self, native: _core.ExactProjection, normalise: bool = True) -> None:
        self._native, self._normalise = native, normalise
        self.vocab_size = native.vocab_size

    @classmethod
    def build(cls, weight: Floats, bias: Floats, isa: str = "auto") -> ExactProjection:
        """Pack the output matrix [V, D] and its bias [V], both float32 and C-contiguous, for a table of kernels.

        Raises ValueError for arrays that do not fit, and for an `isa` that this machine cannot run.
        """
        return cls(_core.ExactProjection(weight, bias, isa))

    def unnormalised(self) -> ExactProjection:
        """The same layer with logits for log probabilities: `Normalising`."""
        return ExactProjection(self._native, normalise=False)

    def core_run(self) -> _core.LayerRun:
        """A run in the compiled core."""
        return self._native.open(self._normalise)

    def topk(self, hidden: Floats, k: int) -> TopK:
        """The k best tokens of each row of `hidden` [R, D], ties by lower id; ValueError unless 1 <= k <= V."""
        return TopK(*self._native.topk(hidden, k, self._normalise))

    def log_prob(self, hidden: Floats, token: Ids) -> Floats:
        """Log probability [R] of the given token [R] of each row: the same bits as from `topk`."""
        return self._native.log_prob(hidden, token, self._normalise)


class ReferenceProjection(RowProjection):
    """The same in NumPy, computed in float64 and rounded once: slow, and the truth that the others are held to."""

    def __init__(self, weight: Floats, bias: Floats) -> None:
        self._weight, self._bias = weight, bias
        self.vocab_size = len(weight)

    def topk(self, hidden: Floats, k: int) -> TopK:
        """The k best tokens of each row of `hidden` [R, D], ties by lower id; ValueError unless 1 <= k <= V."""
        if not 1 <= k <= self.vocab_size:
            raise OptionError(f"k is {k}; it must be from 1 to the vocabulary size, {self.vocab_size}")
        log_prob = self._log_softmax(hidden)
        token = reference.top_k(log_prob, k)
        return TopK(np.take_along_axis(log_prob, token, axis=1), token)

    def log_prob(self, hidden: Floats, token: Ids) -> Floats:
        """Log probability [R] of the given token [R] of each row."""
        return self._log_softmax(hidden)[range(len(token)), token]

    def _log_softmax(self, hidden: Floats) -> Floats:
        logits = reference.multiply(hidden, self._weight, self._bias)
        return (logits - reference.log_sum_exp(logits)).astype(np.float32)
