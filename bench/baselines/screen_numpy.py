"""The screened softmax of L2S (section 3) in NumPy: what the paper times next to the full softmax in NumPy."""

from __future__ import annotations

import numpy as np

from bench.baselines.candidates import CandidateLayer, check_layer, log_sum_exp
from sharpbeam.errors import OptionError
from sharpbeam.output_layers.screen import Screen
from sharpbeam.types import Floats, Ids


class ScreenNumpyLayer(CandidateLayer):
    """Exact logits of the tokens of a row's cluster; the others have probability zero."""

    def __init__(self, weight: Floats, bias: Floats, screen: Screen) -> None:
        """Copy the output rows of each set side by side, so that a row's product reads one block."""
        super().__init__(weight, bias)
        self._screen = screen
        self._sets = np.split(screen.token, screen.start[1:-1])
        self._rows = [(weight[words], bias[words]) for words in self._sets]

    @classmethod
    def build(
        cls, weight: Floats, bias: Floats, samples: Floats | None = None, *, screen: Screen | None = None
    ) -> ScreenNumpyLayer:
        """The layer of a fitted `screen`, whose sets are the dial; samples are not used."""
        check_layer(weight, bias)
        if screen is None:
            raise OptionError("screen is None; it must be a fitted screen")
        return cls(weight, bias, screen)

    def candidates(self, h: Floats) -> Ids:
        """The set of the cluster with the largest weight . h + bias."""
        return self._sets[self._cluster(h)]

    def _cluster(self, h: Floats) -> int:
        return int((self._screen.weight @ h + self._screen.bias).argmax())

    def _score(self, h: Floats) -> tuple[Ids, Floats, np.float32]:
        cluster = self._cluster(h)
        weight, bias = self._rows[cluster]
        logits = weight @ h + bias
        return self._sets[cluster], logits, log_sum_exp(logits)
