"""An output layer without words that a model must never produce, such as the padding of MarianMT.

The normaliser counts them, as in Hugging Face (`bad_words_ids`), so the log probabilities of all other words stay.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sharpbeam import _core
from sharpbeam.output_layers.interface import OutputLayer, OutputLayerRun
from sharpbeam.types import Floats, Ids, TopK


class SuppressedLayer:
    """`output_layers.interface.OutputLayer` over another one; a suppressed word is a candidate of -inf, behind all
    others.
    """

    def __init__(self, layer: OutputLayer, suppressed: Sequence[int]) -> None:
        self._layer, self._suppressed = layer, np.unique(np.array(suppressed, np.int32))
        self.vocab_size = layer.vocab_size

    def open(self) -> OutputLayerRun:
        """The layer in a new decoding run."""
        return _Run(self._layer.open(), self._suppressed, self.vocab_size)


class _Run:
    """`output_layers.interface.OutputLayerRun`."""

    def __init__(self, run: OutputLayerRun, suppressed: Ids, vocab_size: int) -> None:
        self._run, self._vocab_size, self._most = run, vocab_size, len(suppressed)
        self._banned = np.zeros(vocab_size, bool)
        self._banned[suppressed] = True
        self.admit, self.log_prob, self.evict = run.admit, run.log_prob, run.evict
        core_run = getattr(run, "core", None)
        self.core = None if core_run is None else _core.SuppressedRun(core_run, suppressed)

    def topk(self, hidden: Floats, k: int, request: Ids) -> TopK:
        """The k best of the words that are allowed, then, where there are not so many, the others."""
        top = self._run.topk(hidden, min(k + self._most, self._vocab_size), request)
        banned = self._banned[top.token]
        if banned.any():
            order = banned.argsort(axis=1, kind="stable")
            top.token = np.take_along_axis(top.token, order, axis=1)
            top.log_prob = np.take_along_axis(np.where(banned, np.float32(-np.inf), top.log_prob), order, axis=1)
        return TopK(np.ascontiguousarray(top.log_prob[:, :k]), np.ascontiguousarray(top.token[:, :k]))


def without(layer: OutputLayer, suppressed: Sequence[int]) -> OutputLayer:
    """`layer` without the words `suppressed`; the layer itself where there are none."""
    return SuppressedLayer(layer, suppressed) if suppressed else layer
