"""Greedy-MIPS (Yu et al., NeurIPS 2017, "A Greedy Approach for Budgeted Maximum Inner Product Search").

Each coordinate has a list of all words in the order of their values there. For a hidden vector h, the lists are merged
by the products h_j w_ij, largest first, and the first B different words that come out are the candidates: one that is
large in a single product is likely to be large in the sum.
"""

from __future__ import annotations

import heapq

import numpy as np

from bench.baselines.candidates import CandidateLayer, check_layer, in_range
from bench.baselines.neighbours import folded, folded_vector
from sharpbeam.types import Floats, Ids


class GreedyMipsLayer(CandidateLayer):
    """Exact logits of the words that have the largest single products; the bias is one more coordinate."""

    def __init__(self, weight: Floats, bias: Floats, order: Ids, value: Floats, budget: int) -> None:
        """`order` [D + 1, V] are the words of each list, ascending by their `value` [D + 1, V]."""
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
        return cls(weight, bias, order, np.take_along_axis(columns, order, axis=1), budget)

    def candidates(self, h: Floats) -> Ids:
        """The first words of the merged lists (Yu et al., algorithm 3)."""
        vector = folded_vector(h)
        last = self.vocab_size - 1
        # A list is read from its large end where h_j > 0, else from its small end: the products fall either way.
        first = np.where(vector > 0, last, 0)
        heads = vector * self._value[np.arange(len(vector)), first]
        heap = [(-head, j, 0) for j, head in enumerate(heads.tolist())]
        heapq.heapify(heap)
        found: set[int] = set()
        while len(found) < self._budget:
            _, j, depth = heap[0]
            found.add(int(self._order[j, abs(first[j] - depth)]))
            if depth == last:
                heapq.heappop(heap)
                continue
            product = float(vector[j] * self._value[j, abs(first[j] - depth - 1)])
            heapq.heapreplace(heap, (-product, j, depth + 1))
        return np.fromiter(sorted(found), np.int32, len(found))
