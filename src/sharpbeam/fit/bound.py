"""How sure a measured share is: lower confidence bounds of Clopper and Pearson, for steps that depend on each other.

The steps of one sentence are not independent, so there are fewer of them than it seems. As Korn and Graubard do for
surveys, the number of steps is divided by the design effect: the variance of the share over whole sentences, over what
it would be for independent steps. The proven bound of the scan is another one: csrc/output/int8_bounds.h.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sharpbeam.types import Ids


def lower_bound(hits: float, trials: float, confidence: float = 0.95) -> float:
    """The share p whose chance to give `hits` or more of `trials` is 1 - confidence (Clopper-Pearson, one-sided).

    Both may be fractions, as effective numbers are. Right to six digits.
    """
    if hits <= 0 or trials <= 0:
        return 0.0
    a, b = hits, trials - hits + 1  # the share is a quantile of this beta distribution: its density is summed up
    wide = 12 * np.sqrt(1 / a + 1 / b)  # standard deviations of the log odds; tails fall as exp(-a x) and exp(-b x)
    log_odds = np.log(a / b) + np.linspace(-max(wide, 25 / a), max(wide, 25 / b), 20_001)
    log_density = -a * np.logaddexp(0, -log_odds) - b * np.logaddexp(0, log_odds)
    density = np.exp(log_density - log_density.max())
    quantile = np.interp((1 - confidence) * density.sum(), np.cumsum(density) - density / 2, log_odds)
    return float(np.exp(-np.logaddexp(0, -quantile)))


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
