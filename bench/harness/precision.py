"""Precision and time of output layers on held-out hidden vectors: checked first, then timed alternately.

Precision is P@1, P@5 and the share of rows with all five right. Time is the processor's, of a call for one row from
Python, on one thread; ratios are against the full softmax in NumPy, the baseline of the paper (L2S section 4.1).
Methods that take milliseconds a row are measured on fewer rows; how many is said.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.harness.interleave import Timing, interleave
from bench.harness.vectors import K, Sample
from bench.papers.l2s.methods import BASELINE, PROVEN, Contender, TopKLayer
from sharpbeam.types import Floats

SAME_SHARE = 0.999  # of the tokens of BASELINE: float32 sums are rounded in another order, so near ties may flip
CHUNK = 16  # rows between two looks at the clock
ROUND = 0.02  # seconds of one round of a contender
FEWEST = 4  # rows of a round
Point = dict[str, Any]


class WrongAnswerError(Exception):
    """A layer that claims to be exact is not, so its time means nothing."""


def precision(layer: TopKLayer, sample: Sample, seconds: float) -> Point:
    """P@1, P@5 and the share of rows with all five right, on as many rows as `seconds` allow."""
    layer.topk(sample.hidden[:1], K)  # a compiled one compiles now
    parts, began = [], time.perf_counter()
    for first in range(0, len(sample), CHUNK):
        top = layer.topk(sample.hidden[first : first + CHUNK], K)
        parts.append(np.where(top.log_prob > -np.inf, top.token, -1))
        if time.perf_counter() - began > seconds:
            break
    token = np.concatenate(parts)
    exact = sample.top[: len(token)]
    hits = (token[:, :, None] == exact[:, None, :]).any(axis=2).sum(axis=1)
    return {
        "rows": len(token),
        "p_at_1": round(float(np.mean(token[:, 0] == exact[:, 0])), 5),
        "p_at_5": round(float(hits.mean() / K), 5),
        "all_five": round(float(np.mean(hits == K)), 5),
        "order": round(float(np.mean((token == exact).all(axis=1))), 5),
    }


def measure(contenders: Sequence[Contender], sample: Sample, rounds: int, seconds: float) -> list[Point]:
    """Precision and time of each contender; raises WrongAnswerError where one that claims to be exact is not."""
    points = []
    for one in contenders:
        exact = one.method in (*PROVEN, BASELINE)
        figures = precision(one.layer, sample, 10 * seconds if exact else seconds)
        wrong = figures["order"] < 1 if one.method in PROVEN else figures["p_at_5"] < SAME_SHARE
        if exact and wrong:
            raise WrongAnswerError(f"{one.method} is not exact: {figures}")
        points.append({"method": one.method, "dial": one.dial} | figures)
    rows = [_rows(one.layer, sample) for one in contenders]
    runs = {str(i): _one_by_one(one.layer, sample.hidden[: rows[i]]) for i, one in enumerate(contenders)}
    base = next(i for i, one in enumerate(contenders) if one.method == BASELINE)
    timings = interleave(
        runs, str(base), rounds, lambda _: None, time.process_time
    )  # what they return has been checked above
    return [point | _times(timings[str(i)], rows[i], rows[base]) for i, point in enumerate(points)]


def _rows(layer: TopKLayer, sample: Sample) -> int:
    """Rows of one round."""
    began = time.perf_counter()
    for row in range(FEWEST):
        layer.topk(sample.hidden[row : row + 1], K)
    return int(np.clip(ROUND / (time.perf_counter() - began) * FEWEST, FEWEST, len(sample)))


def _one_by_one(layer: TopKLayer, hidden: Floats) -> Callable[[], None]:
    rows = [hidden[row : row + 1] for row in range(len(hidden))]

    def run() -> None:
        for row in rows:
            layer.topk(row, K)

    return run


def _times(timing: Timing, rows: int, base_rows: int) -> dict[str, float]:
    scale = rows / base_rows  # the rounds have different numbers of rows
    return {
        "us": round(1e6 * timing.median_s / rows, 3),
        "ratio": round(timing.ratio * scale, 3),
        "least_ratio": round(timing.least_ratio * scale, 3),
        "most_ratio": round(timing.most_ratio * scale, 3),
    }
