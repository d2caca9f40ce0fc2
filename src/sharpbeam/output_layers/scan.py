"""The fused int8 scan: the exact layer's k best words, proven, from one pass over a quarter of the bytes."""

from __future__ import annotations

from sharpbeam import _core
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.types import Floats, Ids, TopK


class ScanLayer(RowLayer):
    """Int8 logits of all words, then exact ones of every word that could be among the k best.

    Words and their logits are those of `ExactLayer`, for every hidden vector; csrc/output/rounding.h has the
    proof. The normaliser is approximate: it takes exact logits of the 16 best words, int8 ones of the others. Any
    number of threads may share one; a row's answer has the same bits whatever the rows around it and the table.
    """

    def __init__(self, native: _core.ScanLayer, normalise: bool = True) -> None:
        self._native, self._normalise = native, normalise
        self.vocab_size = native.vocab_size

    @classmethod
    def build(cls, weight: Floats, bias: Floats, isa: str = "auto") -> ScanLayer:
        """Round and pack the output matrix [V, D] and its bias [V], both float32 and C-contiguous.

        Raises ValueError for arrays that do not fit, for values that are not finite or above 1e12, and for an `isa`
        that this machine cannot run.
        """
        return cls(_core.ScanLayer(weight, bias, isa))

    def unnormalised(self) -> ScanLayer:
        """The same layer with exact logits for log probabilities: `Normalising`."""
        return ScanLayer(self._native, normalise=False)

    def core_run(self) -> _core.LayerRun:
        """A run in the compiled core."""
        return self._native.open(self._normalise)

    def topk(self, hidden: Floats, k: int) -> TopK:
        """The k best tokens of each row of `hidden` [R, D], ties by lower id; ValueError unless 1 <= k <= V."""
        log_prob, token, _, _ = self._native.topk(hidden, k, self._normalise)
        return TopK(log_prob, token)

    def log_prob(self, hidden: Floats, token: Ids) -> Floats:
        """Log probability [R] of the given token [R] of each row: the same bits as from `topk`."""
        return self._native.log_prob(hidden, token, self._normalise)

    def rescored(self, hidden: Floats, k: int) -> Ids:
        """How many words [R] took exact logits: some of the largest, and all that the bound does not rule out."""
        return self._native.topk(hidden, k)[3]
