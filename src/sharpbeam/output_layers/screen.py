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
from sharpbeam.output_layers.native import NativeRowLayer
from sharpbeam.types import FallbackTest, Floats, Ids, Screen


class ScreenLayer(NativeRowLayer[_core.ScreenLayer]):
    """Choice of the cluster, logits of its set and top k in one native call.

    A returned candidate's logit has the bits of the exact layer's. Where a row has fewer than k candidates, the others
    are token 0 with -inf. A token outside the row's set has the log probability of its exact logit where the screen has
    a residual mass, and -inf without.
    """

    def __init__(self, native: _core.ScreenLayer, fallback: NativeRowLayer[_core.RowLayer] | None) -> None:
        super().__init__(native)
        self.fallback = fallback
        """The layer that answers the uncertain rows; None where the screen answers all."""

    @classmethod
    def build(
        cls,
        weight: Floats,
        bias: Floats,
        screen: Screen,
        exact: NativeRowLayer[_core.RowLayer] | None = None,
        isa: str = "auto",
        *,
        int8: bool = True,
    ) -> ScreenLayer:
        """Pack the rows of the output matrix [V, D] with bias [V] for each cluster of `screen`.

        `exact` answers the rows that the screen's test finds uncertain; without it, the screen answers all. With
        `int8`, clusters and tokens are found by int8 logits, and the tokens that may be among the best take exact
        logits; without, all of a set do. The matrix is shared, and must not be written to afterwards. Raises
        ValueError for arrays that do not fit.
        """
        fallback = None if screen.doubt is None else exact
        native = None if fallback is None else fallback.native
        return cls(_native(weight, bias, screen, isa, int8, native is not None, native), fallback)

    @property
    def packed_bytes(self) -> int:
        """Memory of the packed sets: a token that is in many clusters counts as often."""
        return self.native.packed_bytes

    @property
    def fallback_share(self) -> float:
        """Share of the rows so far that fell back."""
        seen, fallen_back = self.counts
        return fallen_back / max(seen, 1)

    @property
    def counts(self) -> tuple[int, int]:
        """Rows so far, and those of them that fell back."""
        return self.native.rows_seen, self.native.rows_fallen_back

    def assign(self, hidden: Floats) -> Ids:
        """The cluster [R] of each row of `hidden` [R, D]."""
        return self.native.assign(hidden)


class Signs:
    """What the test of a screen sees of each row [n]."""

    def __init__(self, weight: Floats, bias: Floats, screen: Screen, hidden: Floats) -> None:
        """Look at `hidden` [n, D]; the screen has a test, whose k counts."""
        native = _native(weight, bias, screen, "auto", True, True, None)
        self.best, self.kth, self.tail, self.far, self.total = native.features(hidden).T.copy()
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


def _native(
    weight: Floats,
    bias: Floats,
    screen: Screen,
    isa: str,
    int8: bool,
    test: bool,
    fallback: _core.RowLayer | None,
) -> _core.ScreenLayer:
    arrays = (weight, bias, screen.weight, screen.bias, screen.start, screen.token)
    tail, doubt = screen.tail, screen.doubt
    if tail is None:
        return _core.ScreenLayer(*arrays, isa, int8)
    if doubt is None or not test:
        return _core.ScreenLayer(*arrays, isa, int8, None, tail.weight, tail.bias)
    numbers = (doubt.margin, doubt.by_tail, doubt.by_far, doubt.offset, doubt.loosest)
    return _core.ScreenLayer(*arrays, isa, int8, fallback, tail.weight, tail.bias, doubt.center, doubt.k, *numbers)
