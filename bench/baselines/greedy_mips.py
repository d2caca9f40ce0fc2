"""Greedy-MIPS (Yu et al., NeurIPS 2017, "A Greedy Approach for Budgeted Maximum Inner Product Search").

Each coordinate has a list of all words in the order of their values there. For a hidden vector h, the lists are merged
by the products h_j w_ij, largest first, and the first B different words that come out are the candidates: one that is
large in a single product is likely to be large in the sum.
"""

from __future__ import annotations

import numpy as np

from bench.baselines.candidates import CandidateLayer, check_layer, in_range
from bench.baselines.neighbors import folded, folded_vector
from sharpbeam.types import Floats, Ids

FIRST, SPARE = 4, 4  # entries of a list that are read at least, and times as many as would fill the budget


class GreedyMipsLayer(CandidateLayer):
    """Exact logits of the words that have the largest single products; the bias is one more coordinate."""

    def __init__(self, weight: Floats, bias: Floats, order: Ids, value: Floats, budget: int) -> None:
        """`order` [2, D + 1, V] are the words of each list, by their `value` [2, D + 1, V]: descending, ascending."""
        super().__init__(weight, bias)
        self._order, self._value, self._budget = order, value, budget

    @classmethod
    def build(
        cls,
        weight: Floats,
        bias: Floats,
        samples: Floats | None = None,
        *,
        budget: int = 500,
        like: GreedyMipsLayer | None = None,
    ) -> GreedyMipsLayer:
        """Sort the coordinates of the output matrix [V, D] with bias [V]; samples are not used.

        Dial: `budget` B, the number of candidates, 1 to V: with V it is the full softmax. `like` is one of the same
        layer, whose lists are used again.
        """
        check_layer(weight, bias)
        in_range("budget", budget, 1, len(weight))
        if like is not None:
            return cls(weight, bias, like._order, like._value, budget)
        columns = folded(weight, bias).T  # [D + 1, V]
        order = np.argsort(columns, axis=1, kind="stable").astype(np.int32)
        both = np.stack([order[:, ::-1], order])
        return cls(weight, bias, both, np.take_along_axis(np.stack([columns, columns]), both, axis=2), budget)

    def candidates(self, h: Floats) -> Ids:
        """The first words of the merged lists (Yu et al., algorithm 3).

        In place of their heap, which Python is slow at: the first entries of all lists at once, sorted. Those whose
        products are above all that was left out come in the heap's order; where they are too few, more are read.
        """
        vector = folded_vector(h)
        side, lists = (vector <= 0).astype(np.intp), np.arange(len(vector))  # from the large end where h_j > 0
        depth = max(FIRST, SPARE * self._budget // len(vector))
        while True:
            depth = min(depth, self.vocab_size)
            product = vector[:, None] * self._value[side, lists, :depth]
            if depth < self.vocab_size:
                tokens = np.flatnonzero(product > (vector * self._value[side, lists, depth]).max())
            else:
                tokens = np.arange(product.size)
            word = self._order[side, lists, :depth].ravel()[tokens]
            if depth == self.vocab_size or len(np.unique(word)) >= self._budget:
                word = word[np.argsort(-product.ravel()[tokens], kind="stable")]
                _, first = np.unique(word, return_index=True)
                return np.sort(word[np.sort(first)[: self._budget]])
            depth *= 2
