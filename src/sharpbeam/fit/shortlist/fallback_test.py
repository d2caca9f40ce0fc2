"""The fallback test of a shortlist, fitted to hidden vectors: a network of one layer, by Adam, and its threshold.

The network predicts the log of the mass outside a row's set as a normal distribution: its mean and the log of its
deviation (csrc/output/shortlist_test.h), by their likelihood on rows of which all logits were computed. The threshold
is the least for which the rows of held-out sentences have all tokens that matter, or fall back, to the fidelity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sharpbeam.fit.screen.bound import design_effect, lower_bound
from sharpbeam.output_layers.shortlist import ShortlistTest
from sharpbeam.types import Floats, Ids

UNITS = 64
EPOCHS = 8
BATCH = 256
RATE = 3e-3  # of Adam, at its highest
RISING = 0.2  # of the steps: the rate rises to its highest, and falls to 0 after them
DECAY = 0.9, 0.999  # of Adam's moments
DEVIATIONS = -3.0, 4.0  # least and largest log deviation, as in csrc/output/shortlist_test.cpp
STEEPEST = 0.1  # gradient of one row's outputs: a few rows are far off
MOST_SHARE = 0.05  # outside: a normalizer that is wrong by more counts among near-equal hypotheses
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class FallbackRows:
    """Rows [n] of decoding steps, and what all logits say of their sets."""

    hidden: Floats  # [n, D]
    sentence: Ids  # [n]
    best: Floats  # [n] logit in the set
    inside: Floats  # [n] log of the mass of the set
    outside: Floats  # [n] log of the mass outside
    bar: Floats  # [n] the least logit that matters to the search
    miss: Bools  # [n] a token outside reaches it

    def chosen(self, mask: Bools) -> FallbackRows:
        """Those of `mask` [n]."""
        return FallbackRows(*(getattr(self, name)[mask] for name in self.__dataclass_fields__))

    @property
    def direct(self) -> Floats:
        """The inputs of the network next to hidden vectors, [n, 3]."""
        return np.stack([self.best, self.inside, np.ones_like(self.best)], axis=1)


@dataclass(frozen=True)
class FallbackMeasure:
    """Figures of a test on rows that it was not fitted on."""

    rows: int
    alone: float  # share of the rows that have all tokens that matter without it
    fidelity: float  # the same with it
    bound: float  # lower 95% confidence bound of it
    fallback: float  # share of the rows that fall back


def fit_network(rows: FallbackRows, seed: int = 0) -> ShortlistTest:
    """The network of largest likelihood; its threshold is still to be set."""
    draw = np.random.default_rng(seed)
    mean, spread = rows.hidden.mean(axis=0), rows.hidden.std(axis=0) + np.float32(1e-6)
    x, direct = (rows.hidden - mean) / spread, rows.direct
    center, size = direct.mean(axis=0), direct.std(axis=0) + np.float32(1e-6)
    center[2], size[2] = 0.0, 1.0
    near, level = (direct - center) / size, np.float32(rows.outside.mean())
    target, width = rows.outside - level, x.shape[1]
    weights = [
        (draw.normal(size=(width, UNITS)) / np.sqrt(width)).astype(np.float32),
        np.zeros(UNITS, np.float32),
        (draw.normal(size=(UNITS, 2)) * 0.1 / np.sqrt(UNITS)).astype(np.float32),
        np.zeros((3, 2), np.float32),
    ]
    batches = max(1, len(x) // BATCH)
    adam = _Adam(weights, EPOCHS * batches)
    for _ in range(EPOCHS):
        order = draw.permutation(len(x))
        for at in range(batches):
            some = order[at * BATCH : (at + 1) * BATCH]
            adam.step(_gradients(weights, x[some], near[some], target[some]))
    # Of hidden vectors and logits as they are.
    inner = np.ascontiguousarray((weights[0] / spread[:, None]).T)
    straight = (weights[3] / size[:, None]).T
    straight[:, 2] -= straight[:, :2] @ center[:2]
    straight[0, 2] += level
    return ShortlistTest(
        inner,
        weights[1] - inner @ mean,
        np.ascontiguousarray(weights[2].T),
        np.ascontiguousarray(straight, np.float32),
        0.0,
        MOST_SHARE,
    )


class _Adam:
    """Steps down gradients by Kingma and Ba (2015); the rate rises to `RATE` and falls to 0 over `steps` steps."""

    def __init__(self, weights: list[Floats], steps: int) -> None:
        self._weights, self._steps, self._done = weights, steps, 0
        self._first, self._second = ([np.zeros_like(one) for one in weights] for _ in range(2))

    def step(self, gradients: list[Floats]) -> None:
        """Change the weights in place."""
        self._done += 1
        done = self._done / self._steps
        rate = RATE * min(done / RISING, (1 - done) / (1 - RISING)) / (1 - DECAY[0] ** self._done)
        for i, gradient in enumerate(gradients):
            self._first[i] += (1 - DECAY[0]) * (gradient - self._first[i])
            self._second[i] += (1 - DECAY[1]) * (gradient * gradient - self._second[i])
            root = np.sqrt(self._second[i] / (1 - DECAY[1] ** self._done)) + 1e-8
            self._weights[i] -= rate * self._first[i] / root


def _gradients(weights: list[Floats], x: Floats, direct: Floats, target: Floats) -> list[Floats]:
    """Of the mean negative log likelihood of `target` [n] by the four weights."""
    inner, bias, outer, straight = weights
    units = np.maximum(x @ inner + bias, 0)
    found = units @ outer + direct @ straight
    inverse = np.exp(-np.clip(found[:, 1], *DEVIATIONS))
    off = (found[:, 0] - target) * inverse
    by_output = np.clip(np.stack([off * inverse, 1 - off * off], axis=1) / len(x), -STEEPEST, STEEPEST)
    by_unit = (by_output @ outer.T) * (units > 0)
    return [x.T @ by_unit, by_unit.sum(axis=0), units.T @ by_output, direct.T @ by_output]


def certainty(test: ShortlistTest, rows: FallbackRows) -> Floats:
    """How many deviations the bar of each row [n] is above what is expected outside: -inf where the normalizer asks."""
    units = np.maximum(rows.hidden @ test.inner.T + test.bias, 0)
    mean, deviation = (units @ test.outer.T + rows.direct @ test.direct.T).T
    found = (rows.bar - mean) / np.exp(np.clip(deviation, *DEVIATIONS))
    share = 1 / (1 + np.exp(np.clip(rows.inside - mean, -80, 80)))
    return np.where(share > test.most_share, -np.inf, found).astype(np.float32)


def calibrated(test: ShortlistTest, rows: FallbackRows, fidelity: float) -> ShortlistTest:
    """`test` with the least threshold whose fidelity on `rows` is at least `fidelity`, at 95% confidence."""
    sure = certainty(test, rows)
    missing = np.sort(sure[rows.miss & (sure > -np.inf)])  # the threshold is above all but the last `left` of these
    effect = design_effect(rows.miss, rows.sentence)
    trials = len(sure) / effect
    left = 0
    while left < len(missing) and lower_bound(trials - (left + 1) / effect, trials) >= fidelity:
        left += 1
    at = len(missing) - left - 1
    least = float(np.nextafter(missing[at], np.float32(np.inf))) if at >= 0 else float(np.float32(-1e30))
    return replace(test, threshold=least)


def measure_test(test: ShortlistTest, rows: FallbackRows) -> FallbackMeasure:
    """The test on `rows`."""
    falls = certainty(test, rows) < np.float32(test.threshold)
    wrong = rows.miss & ~falls
    trials = len(falls) / design_effect(rows.miss, rows.sentence)
    right = 1 - float(wrong.mean())
    bound = lower_bound(right * trials, trials)
    return FallbackMeasure(len(falls), 1 - float(rows.miss.mean()), right, bound, float(falls.mean()))
