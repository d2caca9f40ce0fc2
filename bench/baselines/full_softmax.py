"""The full softmax as one writes it in NumPy: what the papers' speed-ups are ratios against (L2S section 4.1)."""

from __future__ import annotations

import numpy as np

from bench.baselines.candidates import CandidateLayer, check_layer
from sharpbeam.types import Floats, Ids


class FullSoftmaxLayer(CandidateLayer):
    """All words are candidates, so this is exact, up to how float32 sums are rounded."""

    @classmethod
    def build(cls, weight: Floats, bias: Floats, samples: Floats | None = None) -> FullSoftmaxLayer:
        """Keep the output matrix [V, D] and its bias [V]; there is no dial, and nothing is fitted on samples."""
        check_layer(weight, bias)
        return cls(weight, bias)

    def __init__(self, weight: Floats, bias: Floats) -> None:
        super().__init__(weight, bias)
        self._every = np.arange(len(weight), dtype=np.int32)

    def candidates(self, h: Floats) -> Ids:
        """All words."""
        return self._every
