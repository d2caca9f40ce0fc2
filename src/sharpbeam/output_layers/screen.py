"""The screened output layer (L2S section 3, CVP section 2.3): exact logits of the best tokens of a row's cluster.

Without a residual mass, log probabilities are normalised over the set (L2S section 4.2) and a token outside has
probability zero. A residual mass completes the normaliser: it predicts, from the hidden vector, the mass of all tokens
outside together. L2S (L2S-12) takes low-rank logits of every token for that; this is a product with a few vectors. Rows
that the screen's fallback test finds uncertain fall back to a layer that scores all tokens.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from sharpbeam import _core
from sharpbeam.output_layers.by_language import for_screens
from sharpbeam.output_layers.fitted import FallbackTest, Screen
from sharpbeam.output_layers.native import AnyNativeLayer, AnyNativeRowLayer, NativeRowLayer
from sharpbeam.output_layers.registry import LayerInputs
from sharpbeam.types import Floats, Ids

LAYERS = {
    "screen": ("from those that the model's screen picks (see fit-screen)", ("screens",)),
    "screen-alone": (
        "from the row's set alone, as published: others have probability 0, none fall back",
        ("screens",),
    ),
    "screen-union": (
        "from the sets of all rows of a step, as published: changes with the batch",
        ("screens",),
        True,
    ),
}


class ScreenLayer(NativeRowLayer[_core.ScreenLayer]):
    """Choice of the cluster, logits of its set and top k in one native call.

    A returned candidate's logit has the bits of the exact layer's. Where a row has fewer than k candidates, the others
    are token 0 with -inf. Tokens outside the row's set have probability zero without a residual mass; with one, they
    share it as the exact layer's probabilities do, so that probabilities sum to 1 however wrong it is. Such a token can
    be scored, which costs as much as the exact layer, and is no candidate.
    """

    def __init__(self, native: _core.ScreenLayer, fallback: AnyNativeRowLayer | None) -> None:
        super().__init__(native)
        self.fallback = fallback
        """The layer that answers the uncertain rows; None where the screen answers all."""

    @classmethod
    def build(
        cls,
        weight: Floats,
        bias: Floats,
        screen: Screen,
        exact: AnyNativeRowLayer | None = None,
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
        fallback = None if screen.fallback is None else exact
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


class ScreenUnionLayer(NativeRowLayer[_core.ScreenUnionLayer]):
    """The published layer of CVP (section 2.3): the rows of a step share the union of their sets.

    One gathered matmul over the union, and a softmax over it; tokens outside have probability zero. A row's answer
    depends on the other rows of its step, unlike that of every other layer: it changes with the batch.
    """

    def __init__(self, weight: Floats, bias: Floats, screen: Screen, isa: str = "auto") -> None:
        """Share the output matrix [V, D] with bias [V]; residual mass and fallback test of `screen` are not used."""
        super().__init__(
            _core.ScreenUnionLayer(weight, bias, screen.weight, screen.bias, screen.start, screen.token, isa)
        )


class FallbackFeatures:
    """The features of the fallback test of a screen, of each row [n]."""

    def __init__(self, weight: Floats, bias: Floats, screen: Screen, hidden: Floats) -> None:
        """Look at `hidden` [n, D]; the screen has a test, whose center and k count."""
        native = _native(weight, bias, screen, "auto", True, True, None)
        self.best, self.kth, self.log_mass, self.distance, self.log_total = native.features(hidden).T.copy()
        self.cluster = native.assign(hidden)

    def certainty(self, margin: float, mass_weight: float, distance_weight: float) -> Floats:
        """The left side of the margin test, which is held against its threshold."""
        bar = np.maximum(self.kth, self.best - np.float32(margin))  # the lowest logit that matters
        found: Floats = bar - np.float32(mass_weight) * self.log_mass - np.float32(distance_weight) * self.distance
        return found

    @property
    def log_share(self) -> Floats:
        """The log of the share of the tokens outside, by the residual mass."""
        share: Floats = self.log_mass - self.log_total
        return share

    def uncertain(self, test: FallbackTest) -> NDArray[np.bool_]:
        """Which rows [n] fall back."""
        certainty = self.certainty(test.margin, test.mass_weight, test.distance_weight)
        return ~((certainty >= np.float32(test.threshold)) & (self.log_share <= np.float32(test.max_log_share)))


def _native(
    weight: Floats,
    bias: Floats,
    screen: Screen,
    isa: str,
    int8: bool,
    tested: bool,
    fallback: _core.RowLayer | None,
) -> _core.ScreenLayer:
    arrays = (weight, bias, screen.weight, screen.bias, screen.start, screen.token)
    residual, test = screen.residual, screen.fallback
    if residual is None:
        return _core.ScreenLayer(*arrays, isa, int8)
    mass = (residual.weight, residual.bias)
    if test is None or not tested:
        return _core.ScreenLayer(*arrays, isa, int8, None, *mass)
    numbers = (test.margin, test.mass_weight, test.distance_weight, test.threshold, test.max_log_share)
    return _core.ScreenLayer(*arrays, isa, int8, fallback, *mass, test.center, test.k, *numbers)


def build_layer(name: str, given: LayerInputs) -> AnyNativeLayer:
    """The layer of a model's screen, or of its screens by language; raises ModelError where there is none."""

    def build(screen: Screen) -> AnyNativeLayer:
        if name == "screen-union":
            return ScreenUnionLayer(given.weight, given.bias, screen, given.isa)
        if name == "screen-alone":
            screen = replace(screen, residual=None, fallback=None)
        scan = None if screen.fallback is None else cast("AnyNativeRowLayer", given.layer("scan"))
        return ScreenLayer.build(given.weight, given.bias, screen, scan, given.isa)

    return for_screens(given.artifacts.screens(), build)
