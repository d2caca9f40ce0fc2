"""An output layer without the tokens that a model must never produce, such as the padding of MarianMT.

The normalizer counts them, as in Hugging Face (`bad_words_ids`), so the log probabilities of all other tokens stay.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sharpbeam import _core
from sharpbeam.output_layers.interface import OutputLayer, OutputLayerRun
from sharpbeam.output_layers.native import NativeLayer
from sharpbeam.types import Floats, Ids, TopK


def without(layer: OutputLayer, suppressed: Sequence[int]) -> OutputLayer:
    """`layer` without the tokens `suppressed`, which come after all others, at -inf; the layer itself for none."""
    if not suppressed:
        return layer
    ids = np.unique(np.array(suppressed, np.int32))
    if isinstance(layer, NativeLayer):
        return NativeLayer(_core.SuppressedLayer(layer.native, ids))
    return _Suppressed(layer, ids)


class _Suppressed(OutputLayer):
    """Such a layer over one that is computed in Python."""

    def __init__(self, layer: OutputLayer, suppressed: Ids) -> None:
        self._layer, self._suppressed = layer, suppressed
        self.vocab_size = layer.vocab_size

    def open(self) -> OutputLayerRun:
        """The layer in a new decoding run."""
        return _Run(self._layer.open(), self._suppressed, self.vocab_size)


class _Run:
    native: _core.LayerRun | None = None

    def __init__(self, run: OutputLayerRun, suppressed: Ids, vocab_size: int) -> None:
        self._run, self._vocab_size, self._most = run, vocab_size, len(suppressed)
        self._banned = np.zeros(vocab_size, bool)
        self._banned[suppressed] = True
        self.reason = run.reason
        self.admit, self.log_prob, self.evict = run.admit, run.log_prob, run.evict  # a suppressed token can be scored

    def topk(self, hidden: Floats, k: int, request: Ids) -> TopK:
        """The k best of the tokens that are allowed, then, where there are not so many, the others."""
        top = self._run.topk(hidden, min(k + self._most, self._vocab_size), request)
        banned = self._banned[top.token]
        if banned.any():
            order = banned.argsort(axis=1, kind="stable")
            top.token = np.take_along_axis(top.token, order, axis=1)
            broken = ~(top.log_prob < np.inf)  # no log probability: it must not go with its token
            left = np.where(banned & ~broken, np.float32(-np.inf), top.log_prob)
            top.log_prob = np.take_along_axis(left, order, axis=1)
            top.log_prob[broken.any(axis=1), 0] = np.nan
        return TopK(np.ascontiguousarray(top.log_prob[:, :k]), np.ascontiguousarray(top.token[:, :k]))
