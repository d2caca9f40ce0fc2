"""How wide the beam is: thresholds below the best hypothesis (Freitag & Al-Onaizan 2017; STREAM section 4).

A threshold looks at sums of log probabilities. The best of a request may be a finished one, also of an earlier step.
"max_score_margin" m drops what is below best - m; for a ratio r of probabilities take m = -ln r. "max_score_ratio" r
drops what is below best * r, so it is wider for long hypotheses than for short ones.
"""

from __future__ import annotations

import numpy as np

from quickbeam.options.decode import SearchOptions
from quickbeam.types import Scores


class Width:
    """The thresholds that the options ask for."""

    def __init__(self, options: SearchOptions) -> None:
        self._margin, self._ratio = options.max_score_margin, options.max_score_ratio
        self.varies = self._margin is not None or self._ratio is not None

    def floor(self, best: Scores) -> Scores:
        """The least sum of log probabilities that stays, [B], where `best` [B] are the highest ones."""
        floor = np.full(len(best), -np.inf)
        if self._margin is not None:
            floor = best - self._margin
        if self._ratio is not None:
            floor = np.maximum(floor, best * self._ratio)
        return floor
