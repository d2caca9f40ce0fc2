"""Which candidates live on and which end, in one native call for all requests of a step (csrc/search/selection.h).

How wide a beam is: thresholds below the best hypothesis (Freitag & Al-Onaizan 2017; STREAM section 4). A threshold
looks at sums of log probabilities. The best of a request may be a finished one, also of an earlier step.
"max_score_margin" m drops what is below best - m; for a ratio r of probabilities take m = -ln r. "max_score_ratio" r
drops what is below best * r, so it is wider for long hypotheses than for short ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpbeam import _core
from sharpbeam.options.decode import SearchOptions
from sharpbeam.search.stopping import Pool
from sharpbeam.types import Candidates, Floats, Rows, Scores


@dataclass(frozen=True, slots=True)
class Grown:
    """Candidates as rows, whose `node` is still their parent's."""

    cell: NDArray[np.int64]  # [n] their places in the flat [R, k]
    rows: Rows
    log_prob: Floats  # [n] of the last token


@dataclass(frozen=True, slots=True)
class Selected:
    """What becomes of the candidates of B requests."""

    first: NDArray[np.int64]  # [B] the place of the first row of each request
    best: Scores  # [B] the score of its best candidate that lives on, -inf without any
    going: Grown
    ended: Grown
    kept: NDArray[np.bool_]  # [H] where they share the beam: which of the finished ones still have a place on it


_NONE = (np.empty(0), np.empty(0, np.int32), np.empty(0))


def facts(options: SearchOptions, eos_id: int, keep: int) -> dict[str, Any]:
    """What the compiled core is told about the selection (csrc/search/selection.h)."""
    margin, ratio = options.max_score_margin, options.max_score_ratio
    return {
        "beam": options.beam_size,
        "keep": keep,
        "eos": eos_id,
        "max_length": options.max_length,
        "margin": math.inf if margin is None else margin,
        "ratio": 0.0 if ratio is None else ratio,
        "stays": options.finishing == "stay",
    }


class Selector:
    """Steps 1 to 3 of search/beam.py, behind the rules for candidates; one run at a time."""

    def __init__(self, options: SearchOptions, eos_id: int, keep: int) -> None:
        """The `keep` best candidates of each request are ranked."""
        self._margin, self._ratio = margin, ratio = options.max_score_margin, options.max_score_ratio
        self._stays = options.finishing == "stay"
        self.looks_back = self._stays or margin is not None or ratio is not None
        """Whether it matters what is finished already."""
        self._core = _core.Selector(**facts(options, eos_id, keep))

    def floor(self, best: float) -> float:
        """The least sum of log probabilities that stays, where `best` is the highest one."""
        floor = -math.inf if self._margin is None else best - self._margin
        return floor if self._ratio is None else max(floor, best * self._ratio)

    def select(self, rows: Rows, found: Candidates, pools: Sequence[Pool]) -> Selected:
        """`found` [R, k] are the candidates of the rows; `pools` [B] what is finished, if that matters, else none."""
        top, start, held = _NONE
        if pools:
            top = np.array([pool.top for pool in pools])
        if self._stays:
            start = np.array([0, *(len(pool) for pool in pools)], np.int32).cumsum(dtype=np.int32)
            held = np.array([finished.log_prob for pool in pools for finished in pool.best], np.float64)
        token = np.ascontiguousarray(found.token, np.int32)
        log_prob, value = (np.ascontiguousarray(array, np.float32) for array in (found.log_prob, found.value))
        first, best, going, ended, kept = self._core.select(
            *(rows.request, rows.state, rows.node, rows.length, rows.score, token, log_prob, value, top, start, held)
        )
        return Selected(first, best, _grown(*going), _grown(*ended), kept)


def _grown(
    cell: NDArray[np.int64],
    request: NDArray[np.int32],
    state: NDArray[np.int32],
    node: NDArray[np.int32],
    token: NDArray[np.int32],
    length: NDArray[np.int32],
    log_prob: Floats,
    score: Scores,
) -> Grown:
    return Grown(cell, Rows(request, state, token, node, length, score), log_prob)
