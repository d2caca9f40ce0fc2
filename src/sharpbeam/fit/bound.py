"""How sure a measured share is: lower confidence bounds of Clopper and Pearson, for steps that depend on each other.

The steps of one sentence are not independent, so there are fewer of them than it seems. As Korn and Graubard do for
surveys, the number of steps is divided by the design effect: the variance of the share over whole sentences, over what
it would be for independent steps.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sharpbeam.types import Ids


def lower_bound(hits: float, trials: float, confidence: float = 0.95) -> float:
    """The share p whose chance to give `hits` or more of `trials` is 1 - confidence (Clopper-Pearson, one-sided).

    Both may be fractions, as effective numbers are.
    """
    if hits <= 0 or trials <= 0:
        return 0.0
    low, high = 0.0, 1.0  # chance(hits or more | p) = I_p(hits, trials - hits + 1) rises with p
    for _ in range(60):
        middle = (low + high) / 2
        if incomplete_beta(hits, trials - hits + 1, middle) < 1 - confidence:
            low = middle
        else:
            high = middle
    return low


def design_effect(miss: NDArray[np.bool_], sentence: Ids) -> float:
    """By how much whole sentences blow up the variance of the share of misses [n]; at least 1.

    Without any miss there is nothing to estimate it from, and 1 is returned.
    """
    share = float(miss.mean())
    if not 0 < share < 1:
        return 1.0
    _, which = np.unique(sentence, return_inverse=True)
    gaps = np.bincount(which, miss - share)  # [S] each sentence's part of the deviation
    if len(gaps) < 2:
        return float(len(miss))
    variance = float((gaps**2).sum()) * len(gaps) / (len(gaps) - 1)
    return max(1.0, variance / (len(miss) * share * (1 - share)))


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b) for a, b > 0 (continued fraction, Lentz's method)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # the fraction converges quickly on the other side
        return 1.0 - incomplete_beta(b, a, 1.0 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    value, c, d = 1.0, 1.0, 0.0
    for i in range(10_000):
        m = i // 2
        if i == 0:
            numerator = 1.0
        elif i % 2 == 0:
            numerator = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        else:
            numerator = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1.0 / _nonzero(1.0 + numerator * d)
        c = _nonzero(1.0 + numerator / c)
        value *= c * d
        if abs(1.0 - c * d) < 1e-13:
            break
    return front * (value - 1.0)


def _nonzero(x: float) -> float:
    return x if abs(x) > 1e-300 else 1e-300
