"""Output layers of the compiled core, as Python sees them.

A row's answer has the same bits whatever the rows around it, the number of threads and the kernel table. Any number of
threads may share a layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from sharpbeam import _core
from sharpbeam.errors import OptionError
from sharpbeam.output_layers.interface import OutputLayer, RowLayer
from sharpbeam.types import Floats, Ids, Request, TopK

_FLOAT, _ID = np.dtype(np.float32), np.dtype(np.int32)
LayerT_co = TypeVar("LayerT_co", bound=_core.OutputLayer, covariant=True)
RowLayerT_co = TypeVar("RowLayerT_co", bound=_core.RowLayer, covariant=True)


class NativeRun:
    """`OutputLayerRun` on the core. A caller's mistake raises ValueError and changes nothing."""

    native: _core.LayerRun | None
    reason: str = ""

    def __init__(self, native: _core.LayerRun) -> None:
        self.native = self._run = native
        self.log_prob, self.evict = native.log_prob, native.evict

    def admit(self, requests: Sequence[Request]) -> None:
        """Prepare for rows of `requests`; ValueError where one is in flight already."""
        for request in requests:
            languages = request.languages
            self._run.admit(request.index, request.source, languages.source, languages.target)

    def topk(self, hidden: Floats, k: int, request: Ids) -> TopK:
        """The k best tokens of each row; ValueError unless 1 <= k <= V, and for a request that is not in flight."""
        return TopK(*self._run.topk(hidden, k, request))


class NativeLayer(OutputLayer, Generic[LayerT_co]):
    """`OutputLayer` on the core."""

    def __init__(self, native: LayerT_co) -> None:
        self.native = native
        self.vocab_size = native.vocab_size

    @property
    def fallback_counts(self) -> tuple[int, int] | None:
        """Rows so far, and those of them that fell back to a layer that scores all tokens; None where none can."""
        native: Any = self.native
        return (native.rows_seen, native.rows_fallen_back) if hasattr(native, "rows_seen") else None

    @property
    def fallback_share(self) -> float | None:
        """Share of the rows so far that fell back; None where none can."""
        counts = self.fallback_counts
        return None if counts is None else counts[1] / max(counts[0], 1)

    def open(self) -> NativeRun:
        """The layer in a new decoding run."""
        return NativeRun(self.native.open())


class NativeRowLayer(NativeLayer[RowLayerT_co], RowLayer, Generic[RowLayerT_co]):
    """`RowLayer` on the core."""

    def topk(self, hidden: Floats, k: int) -> TopK:
        """The k best tokens of each row of `hidden` [R, D], ties by lower id; ValueError unless 1 <= k <= V."""
        if not 1 <= k <= self.vocab_size:
            raise OptionError(f"k is {k}; it must be from 1 to the vocabulary size, {self.vocab_size}")
        shape = (len(hidden), k)
        log_prob, token = np.empty(shape, _FLOAT), np.empty(shape, _ID)
        self.native.topk(hidden, log_prob, token)
        return TopK(log_prob, token)

    def log_prob(self, hidden: Floats, token: Ids) -> Floats:
        """Log probability [R] of the given token [R] of each row: the bits of `topk`."""
        return self.native.log_prob(hidden, token)


AnyNativeLayer = NativeLayer[_core.OutputLayer]
AnyNativeRowLayer = NativeRowLayer[_core.RowLayer]


class NativeNormalizing(NativeRowLayer[RowLayerT_co]):
    """`RowLayer` on the core whose normalizer can be left out."""

    def unnormalized(self) -> AnyNativeRowLayer:
        """The same layer with exact logits for log probabilities: `Normalizing`."""
        unnormalized = self.native.unnormalized()
        assert unnormalized is not None
        return NativeRowLayer(unnormalized)
