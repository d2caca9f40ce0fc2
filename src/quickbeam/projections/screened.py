"""The screened output layer (L2S section 3, CVP section 2.3): the exact logits of the words of a row's cluster.

A word outside the set has probability zero, and log probabilities are normalised over the set (L2S section 4.2). Rows
that the screen's test doubts go to the exact layer.
"""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from quickbeam import _core
from quickbeam.errors import OptionError
from quickbeam.kernels import reference
from quickbeam.projections.door import RowProjection
from quickbeam.types import Floats, Ids, Screen, TopK


class ScreenedProjection(RowProjection):
    """Cluster choice, screened products and top k in one native call; any number of threads may share one.

    A row's answer has the same bits whatever the rows around it and the kernel table; a returned candidate's logit has
    those of the exact projection. Where a row has fewer than k candidates, the others are token 0 with -inf.
    """

    def __init__(self, native: _core.ScreenedProjection, exact: RowProjection | None, union: bool) -> None:
        self._native, self._exact, self._union = native, exact, union
        self._lock = threading.Lock()
        self._rows = self._doubtful = 0
        self.vocab_size = native.vocab_size

    @classmethod
    def build(
        cls,
        weight: Floats,
        bias: Floats,
        screen: Screen,
        exact: RowProjection | None = None,
        isa: str = "auto",
        *,
        union: bool = False,
    ) -> ScreenedProjection:
        """Pack the rows of the output matrix [V, D] with bias [V] for each cluster of `screen`.

        `exact` answers the rows that the screen's test doubts; without it, the screen answers all. With `union`, each
        row is scored on the sets of all rows of its batch (CVP section 2.3), so that its answer depends on its
        neighbours, and nothing is doubted. Raises ValueError for arrays that do not fit.
        """
        arrays = (weight, bias, screen.weight, screen.bias, screen.start, screen.token)
        doubt = screen.doubt
        if doubt is None or exact is None or union:
            return cls(_core.ScreenedProjection(*arrays, isa), None, union)
        native = _core.ScreenedProjection(*arrays, isa, doubt.center, doubt.k, doubt.slope, doubt.offset)
        return cls(native, exact, union)

    @property
    def packed_bytes(self) -> int:
        """Memory of the packed words: a word that is in many clusters counts as often."""
        return 4 * self._native.floats

    @property
    def fallback_share(self) -> float:
        """Share of the rows so far that went to the exact layer."""
        return self._doubtful / max(self._rows, 1)

    def topk(self, hidden: Floats, k: int) -> TopK:
        """The k best candidates of each row of `hidden` [R, D], ties by lower id; ValueError unless 1 <= k <= V."""
        if self._union:
            return TopK(*self._native.topk_union(hidden, k))
        log_prob, token, doubtful = self._native.topk(hidden, k)
        if self._exact is not None and (rows := self._count(doubtful)).size:
            top = self._exact.topk(hidden[rows], k)
            log_prob[rows], token[rows] = top.log_prob, top.token
        return TopK(log_prob, token)

    def log_prob(self, hidden: Floats, token: Ids) -> Floats:
        """Log probability [R] of the given token [R] of each row: the bits of `topk`, -inf outside the set."""
        log_prob, doubtful = self._native.log_prob(hidden, token)
        if self._exact is not None and (rows := self._count(doubtful)).size:
            log_prob[rows] = self._exact.log_prob(hidden[rows], token[rows])
        return log_prob

    def _count(self, doubtful: NDArray[np.bool_]) -> NDArray[np.intp]:
        """The places of the doubtful rows, which are counted."""
        rows = doubtful.nonzero()[0]
        with self._lock:
            self._rows += len(doubtful)
            self._doubtful += len(rows)
        return rows


class ReferenceScreenedProjection(RowProjection):
    """The same in NumPy, computed in float64 and rounded once: slow, and the truth that the native one is held to."""

    def __init__(self, weight: Floats, bias: Floats, screen: Screen, exact: RowProjection | None = None) -> None:
        self._weight, self._bias, self._screen, self._exact = weight, bias, screen, exact
        self.vocab_size = len(weight)

    def topk(self, hidden: Floats, k: int) -> TopK:
        """The k best candidates of each row of `hidden` [R, D], ties by lower id; OptionError unless 1 <= k <= V."""
        if not 1 <= k <= self.vocab_size:
            raise OptionError(f"k is {k}; it must be from 1 to the vocabulary size, {self.vocab_size}")
        log_prob = np.full((len(hidden), k), -np.inf, np.float32)
        token = np.zeros((len(hidden), k), np.int32)
        for row, h in enumerate(hidden):
            words, scores, doubtful = self._score(h)
            if doubtful and self._exact is not None:
                top = self._exact.topk(hidden[row : row + 1], k)
                log_prob[row], token[row] = top.log_prob[0], top.token[0]
                continue
            best = reference.top_k(scores, min(k, len(words)))
            log_prob[row, : len(best)], token[row, : len(best)] = scores[best], words[best]
        return TopK(log_prob, token)

    def log_prob(self, hidden: Floats, token: Ids) -> Floats:
        """Log probability [R] of the given token [R] of each row; -inf outside the set."""
        found = np.full(len(hidden), -np.inf, np.float32)
        for row, h in enumerate(hidden):
            words, scores, doubtful = self._score(h)
            if doubtful and self._exact is not None:
                found[row] = self._exact.log_prob(hidden[row : row + 1], token[row : row + 1])[0]
            elif token[row] in words:
                found[row] = scores[np.searchsorted(words, token[row])]
        return found

    def _score(self, h: Floats) -> tuple[Ids, Floats, bool]:
        """Words of the cluster of h [D], their log probabilities, and whether the row is doubtful."""
        screen, doubt = self._screen, self._screen.doubt
        cluster = int(np.argmax(reference.multiply(h, screen.weight, screen.bias)))  # z(h), L2S eq. 3
        words = screen.token[screen.start[cluster] : screen.start[cluster + 1]]
        logits = reference.multiply(h, self._weight[words], self._bias[words])
        doubtful = False
        if doubt is not None:
            far = np.linalg.norm(h.astype(np.float64) - doubt.center[cluster])
            kth = np.sort(logits)[-doubt.k] if len(logits) >= doubt.k else -np.inf
            doubtful = bool(kth - doubt.slope * far < doubt.offset)
        return words, (logits - reference.log_sum_exp(logits)).astype(np.float32), doubtful
