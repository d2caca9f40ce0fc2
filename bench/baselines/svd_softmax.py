"""SVD-softmax (Shim et al., NIPS 2017, "SVD-Softmax: Fast Softmax Approximation on Large Vocabulary Neural Networks").

The output matrix is W = U S V'. All words are previewed with the first R coordinates of U S and V' h, which hold the
most of W that R coordinates can; the N words with the best previews get exact logits.
"""

from __future__ import annotations

import numpy as np

from bench.baselines.candidates import (
    CandidateLayer,
    check_layer,
    exact_logits,
    in_range,
    largest,
    log_sum_exp,
)
from bench.baselines.neighbors import principal
from sharpbeam.types import Floats, Ids


class SvdSoftmaxLayer(CandidateLayer):
    """The one baseline whose normalizer counts all words: by their previews where there are no exact logits."""

    def __init__(self, weight: Floats, bias: Floats, preview: Floats, basis: Floats, rescored: int) -> None:
        """`preview` [V, R] is U S, `basis` [R, D] is V', both cut to R coordinates."""
        super().__init__(weight, bias)
        self._preview, self._basis, self._rescored = preview, basis, rescored

    @classmethod
    def build(
        cls, weight: Floats, bias: Floats, samples: Floats | None = None, *, rank: int = 64, rescored: int = 64
    ) -> SvdSoftmaxLayer:
        """Factor the output matrix [V, D] with bias [V]; samples are not used.

        Dials: `rank` R, 1 to min(V, D), and `rescored` N, 1 to V: with N = V it is the full softmax.
        """
        check_layer(weight, bias)
        in_range("rank", rank, 1, min(weight.shape))
        in_range("rescored", rescored, 1, len(weight))
        basis = principal(weight)[:rank]
        return cls(weight, bias, weight @ basis.T, basis, rescored)

    def candidates(self, h: Floats) -> Ids:
        """The words with the best previews."""
        return np.sort(largest(self.previews(h), self._rescored))

    def _score(self, h: Floats) -> tuple[Ids, Floats, np.float32]:
        every = self.previews(h)
        words = np.sort(largest(every, self._rescored))
        logits = exact_logits(self._weight, self._bias, words, h)
        every[words] = logits
        return words, logits, log_sum_exp(every)

    def _unseen(self, h: Floats, token: int, total: np.float32) -> np.float32:
        return np.float32(self.previews(h)[token] - total)

    def previews(self, h: Floats) -> Floats:
        """Approximate logits [V]."""
        return self._preview @ (self._basis @ h) + self._bias
