"""Greedy-MIPS (Yu et al., NeurIPS 2017, "A Greedy Approach for Budgeted Maximum Inner Product Search").

Each coordinate has a list of all words in the order of their values there. For a hidden vector h, the lists are merged
by the products h_j w_ij, largest first, and the first B different words that come out are the candidates: one that is
large in a single product is likely to be large in the sum.
"""

from __future__ import annotations

import heapq

import numpy as np

from bench.baselines.candidates import CompiledLayer, check_layer, in_range
from bench.baselines.neighbors import folded, folded_vector
from bench.baselines.peers import compiled
from sharpbeam.types import Floats, Ids


class GreedyMipsLayer(CompiledLayer):
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
        """The first words of the merged lists (Yu et al., algorithm 3)."""
        return np.sort(compiled(_merged)(self._order, self._value, folded_vector(h), self._budget))


def _merged(order: Ids, value: Floats, vector: Floats, budget: int) -> Ids:
    """The first `budget` different words of all lists: a heap has the next product of each."""
    seen, words, found = np.zeros(order.shape[2], np.bool_), np.empty(budget, np.int32), 0
    side, place = (vector <= 0).astype(np.intp), np.zeros(len(vector), np.intp)  # from the large end where h_j > 0
    heap = [(-vector[j] * value[side[j], j, 0], j) for j in range(len(vector))]
    heapq.heapify(heap)
    while found < budget:
        j = heap[0][1]
        word = order[side[j], j, place[j]]
        if not seen[word]:
            seen[word], words[found] = True, word
            found += 1
        place[j] += 1
        if place[j] < len(seen):
            heapq.heapreplace(heap, (-vector[j] * value[side[j], j, place[j]], j))
        else:
            heapq.heappop(heap)
    return words
