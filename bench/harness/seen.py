"""The hidden vectors that an output layer is asked for."""

from __future__ import annotations

import numpy as np

from bench.harness.parts import with_parts
from sharpbeam import Translator
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.types import Floats, Ids, TopK


class Recorder(RowLayer):
    """An output layer that keeps the hidden vectors that it is asked for."""

    def __init__(self, output_layer: RowLayer) -> None:
        self._output_layer = output_layer
        self.vocab_size = output_layer.vocab_size
        self.seen: list[Floats] = []

    def topk(self, hidden: Floats, k: int) -> TopK:
        self.seen.append(hidden.copy())
        return self._output_layer.topk(hidden, k)

    def log_prob(self, hidden: Floats, token: Ids) -> Floats:
        return self._output_layer.log_prob(hidden, token)


def hidden_vectors(translator: Translator, sources: list[str]) -> Floats:
    """The hidden vectors [N, D] of greedy translations."""
    recorder = Recorder(translator.loaded.exact)
    with with_parts(translator, exact=recorder):
        translator.translate(sources, raw=True, beam_size=1, output_layer="exact")
    return np.concatenate(recorder.seen)
