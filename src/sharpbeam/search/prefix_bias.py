"""A prefix that is not forced but made likelier, as CTranslate2's `prefix_bias_beta` does (Arivazhagan et al. 2020).

While a hypothesis is the beginning of its request's prefix, the probability of each next word is (1 - beta) times the
model's, and that of the prefix's next word beta more. A hypothesis that has left the prefix is searched as if there
were none. Scores contain the bias; the scores of tokens are the model's own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sharpbeam.search.interface import Forward
from sharpbeam.search.tree import TokenTree
from sharpbeam.types import Candidates, Floats, Ids, Prefix, Rows, TopK

Following = tuple[NDArray[np.intp], Ids]  # places [n] of the rows that follow their prefix, and its next words [n]


class PrefixBias:
    """The bias of one run; without beta there is none."""

    def __init__(self, beta: float, tree: TokenTree, prefixes: Mapping[int, Prefix]) -> None:
        """`prefixes` is a live view of those of the requests in flight."""
        self._tree, self._prefixes = tree, prefixes
        self._more = math.log(beta) if beta else -math.inf
        self._less = math.log1p(-beta)
        self._seen: tuple[Ids, Following] | None = None  # the last nodes, and what follows there

    @property
    def active(self) -> bool:
        """Whether a row may follow a prefix."""
        return self._more > -math.inf and bool(self._prefixes)

    def complete(self, rows: Rows, top: TopK, hidden: Floats, forward: Forward) -> TopK:
        """`top` [R, k] with the prefix's next word among the candidates of each row that follows it.

        Where the output layer did not find it, it takes the place of the last candidate.
        """
        place, word = self._following(rows)
        absent = (top.token[place] != word[:, None]).all(axis=1)
        place, word = place[absent], word[absent]
        if not len(place):
            return top
        log_prob, token = top.log_prob.copy(), top.token.copy()
        token[place, -1] = word
        log_prob[place, -1] = forward.log_prob(np.ascontiguousarray(hidden[place]), word, rows.request[place])
        return TopK(log_prob, token)

    def apply(self, rows: Rows, found: Candidates) -> Candidates:
        """The candidates in their new order, best first, equal ones by their ids."""
        place, word = self._following(rows)
        if not len(place):
            return found
        value = found.value.astype(np.float64)
        value[place] += self._less
        rows_, columns = (found.token[place] == word[:, None]).nonzero()
        value[place[rows_], columns] = np.logaddexp(value[place[rows_], columns], self._more)
        found = Candidates(found.token, found.log_prob, value.astype(np.float32))
        return found.take(np.lexsort((found.token, -found.value)))

    def _following(self, rows: Rows) -> Following:
        """Which rows are the beginning of their prefix, and its next words; asked twice a step, walked once."""
        if self._seen is not None and self._seen[0] is rows.node:
            return self._seen[1]
        places, words = [], []
        columns = (rows.request.tolist(), rows.length.tolist(), rows.node.tolist())
        for row, (request, length, node) in enumerate(zip(*columns, strict=True)):
            prefix = self._prefixes.get(request)
            if prefix is None or length >= len(prefix.token):
                continue
            if self._tree.path(node)[0] == prefix.token[:length].tolist():
                places.append(row)
                words.append(int(prefix.token[length]))
        following = np.array(places, np.intp), np.array(words, np.int32)
        self._seen = rows.node, following
        return following
