"""The screened output layer (L2S section 3, CVP section 2.3): the exact logits of the best words of a row's cluster.

Without a tail, log probabilities are normalised over the set (L2S section 4.2) and a word outside has probability zero.
A tail completes the normaliser: it predicts, from the hidden vector, what all words outside weigh together. L2S
(L2S-12) takes low-rank logits of every word for that; a tail is a product with a few vectors. Rows that the screen's
test doubts go to another output layer, which answers for all words.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sharpbeam import _core
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.types import FallbackTest, Floats, Ids, Screen, TopK

_FLOAT, _ID = np.dtype(np.float32), np.dtype(np.int32)


class ScreenLayer(RowLayer):
    """Cluster choice, screened products and top k in one native call; any number of threads may share one.

    A row's answer has the same bits whatever the rows around it and the kernel table; a returned candidate's logit has
    those of the exact output_layer. Where a row has fewer than k candidates, the others are token 0 with -inf.
    """

    def __init__(self, native: _core.ScreenLayer, exact: RowLayer | None, union: bool) -> None:
        self._native, self._exact, self._union = native, exact, union
        self._topk = native.topk
        self.vocab_size = native.vocab_size

    @classmethod
    def build(
        cls,
        weight: Floats,
        bias: Floats,
        screen: Screen,
        exact: RowLayer | None = None,
        isa: str = "auto",
        *,
        union: bool = False,
        int8: bool = True,
    ) -> ScreenLayer:
        """Pack the rows of the output matrix [V, D] with bias [V] for each cluster of `screen`.

        `exact` answers the rows that the screen's test doubts; without it, the screen answers all. With `int8`,
        clusters and words are found by rounded products, and the words that may be among the best take exact logits;
        without, all of a set do. With `union`, each row is scored on the sets of all rows of its batch (CVP section
        2.3), so that its answer depends on its neighbours, and nothing is doubted. Raises ValueError for arrays that do
        not fit.
        """
        doubt = None if exact is None or union else screen.doubt
        exact = None if doubt is None else exact  # it need not be there where nobody asks it
        return cls(_native(weight, bias, screen, isa, int8, doubt is not None), exact, union)

    @property
    def packed_bytes(self) -> int:
        """Memory of the packed words: a word that is in many clusters counts as often."""
        return self._native.packed_bytes

    @property
    def fallback_share(self) -> float:
        """Share of the rows so far that went to the exact layer."""
        return self._native.rows_doubtful / max(self._native.rows_seen, 1)

    @property
    def counts(self) -> tuple[int, int]:
        """Rows so far, and those of them that went to the exact layer."""
        return self._native.rows_seen, self._native.rows_doubtful

    def core_run(self) -> _core.LayerRun | None:
        """A run in the compiled core, if the layer that answers the doubtful rows has one; not of a union."""
        exact = None if self._exact is None else self._exact.core_run()
        if self._union or (exact is None and self._exact is not None):
            return None
        return self._native.open(exact)

    def topk(self, hidden: Floats, k: int) -> TopK:
        """The k best candidates of each row of `hidden` [R, D], ties by lower id; ValueError unless 1 <= k <= V."""
        if self._union:
            return TopK(*self._native.topk_union(hidden, k))
        shape = (len(hidden), k)
        log_prob, token = np.empty(shape, _FLOAT), np.empty(shape, _ID)
        doubtful = self._topk(hidden, log_prob, token)
        if doubtful is not None and self._exact is not None:
            top = self._exact.topk(hidden[doubtful], k)
            log_prob[doubtful], token[doubtful] = top.log_prob, top.token
        return TopK(log_prob, token)

    def log_prob(self, hidden: Floats, token: Ids) -> Floats:
        """Log probability [R] of the given token [R] of each row: the bits of `topk`.

        Outside the set it is that of the exact logit where the screen has a tail, and -inf without.
        """
        log_prob, doubtful = self._native.log_prob(hidden, token)
        if doubtful is not None and self._exact is not None:
            log_prob[doubtful] = self._exact.log_prob(hidden[doubtful], token[doubtful])
        return log_prob

    def assign(self, hidden: Floats) -> Ids:
        """The cluster [R] of each row of `hidden` [R, D]."""
        return self._native.assign(hidden)


class Signs:
    """What the test of a screen sees of each row [n]."""

    def __init__(self, weight: Floats, bias: Floats, screen: Screen, hidden: Floats) -> None:
        """Look at `hidden` [n, D]; the screen has a test, whose k counts."""
        native = _native(weight, bias, screen, "auto", int8=True, doubt=True)
        self.best, self.kth, self.tail, self.far, self.total = native.signs(hidden).T.copy()
        self.cluster = native.assign(hidden)

    def bar(self, margin: float) -> Floats:
        """The lowest logit that matters."""
        bar: Floats = np.maximum(self.kth, self.best - np.float32(margin))
        return bar

    def sure(self, margin: float, by_tail: float, by_far: float) -> Floats:
        """What the test holds against its offset."""
        sure: Floats = self.bar(margin) - np.float32(by_tail) * self.tail - np.float32(by_far) * self.far
        return sure

    @property
    def outside(self) -> Floats:
        """The log of the share of the words outside, by the tail."""
        share: Floats = self.tail - self.total
        return share

    def doubtful(self, test: FallbackTest) -> NDArray[np.bool_]:
        """Which rows [n] go to the exact layer."""
        sure = self.sure(test.margin, test.by_tail, test.by_far)
        return ~((sure >= np.float32(test.offset)) & (self.outside <= np.float32(test.loosest)))


def _native(weight: Floats, bias: Floats, screen: Screen, isa: str, int8: bool, doubt: bool) -> _core.ScreenLayer:
    arrays = (weight, bias, screen.weight, screen.bias, screen.start, screen.token)
    tail, test = screen.tail, screen.doubt
    if tail is None:
        return _core.ScreenLayer(*arrays, isa, int8)
    if test is None or not doubt:
        return _core.ScreenLayer(*arrays, isa, int8, tail.weight, tail.bias)
    numbers = (test.margin, test.by_tail, test.by_far, test.offset, test.loosest)
    return _core.ScreenLayer(*arrays, isa, int8, tail.weight, tail.bias, test.center, test.k, *numbers)
