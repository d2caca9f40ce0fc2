"""Check, then time: named contenders take turns in one run, and every figure is a ratio against one of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Timing:
    """Times of one contender over the rounds, and how much faster than the baseline it was."""

    median_s: float
    least_s: float
    most_s: float
    ratio: float  # median over the rounds of baseline's time / this one's in the same round
    least_ratio: float
    most_ratio: float

    def ratios(self) -> dict[str, float]:
        """For a line of results."""
        return {name: round(getattr(self, name), 3) for name in ("ratio", "least_ratio", "most_ratio")}


def interleave(
    contenders: Mapping[str, Callable[[], T]],
    baseline: str,
    rounds: int,
    check: Callable[[dict[str, T]], None],
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Run each contender once and `check` what they returned; where it does not raise, time them in turns.

    `clock` may be time.process_time where all contenders have one thread: a busy machine counts less. The
    order rotates from round to round, so that none always comes after the same one.
    """
    if baseline not in contenders:
        raise ValueError(f"baseline is {baseline!r}; it must be one of {', '.join(contenders)}.")
    if rounds < 1:
        raise ValueError(f"rounds is {rounds}; it must be 1 or more.")
    check({name: run() for name, run in contenders.items()})
    names = list(contenders)
    times: dict[str, list[float]] = {name: [] for name in names}
    for round_number in range(rounds):
        shift = round_number % len(names)
        for name in names[shift:] + names[:shift]:
            began = clock()
            contenders[name]()
            times[name].append(clock() - began)
    return {name: _timing(seconds, times[baseline]) for name, seconds in times.items()}


def _timing(seconds: list[float], baseline: list[float]) -> Timing:
    ratios = [base / own for base, own in zip(baseline, seconds, strict=True)]
    return Timing(
        statistics.median(seconds), min(seconds), max(seconds), statistics.median(ratios), min(ratios), max(ratios)
    )
