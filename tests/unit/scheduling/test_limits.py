"""Limits of schedules: bytes in flight, and how long a request waits."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.toys import BOS, EOS, ToyLayer, ToyModel, toy_requests

from sharpbeam.decoding.loop import decode
from sharpbeam.options.decode import ScheduleOptions, SearchOptions
from sharpbeam.scheduling.interface import Schedule
from sharpbeam.scheduling.memory import Memory, Usage
from sharpbeam.scheduling.plan import Plan
from sharpbeam.scheduling.queue import RequestQueue
from sharpbeam.search.beam import BeamSearch
from sharpbeam.types import Footprint, Hypothesis, Request, Rows, StepResult

ORDERS = ["stream", "stream-shortest", "stream-longest"]
FOOTPRINT = Footprint(row=1000, position=100)
BEAM = 4


class Watched:
    """A schedule, and what its requests took: bytes after each step, and steps that they waited for."""

    def __init__(self, schedule: Schedule, memory: Memory) -> None:
        self.schedule, self.memory = schedule, memory
        self.sources: dict[int, int] = {}
        self.waited: defaultdict[int, int] = defaultdict(int)
        self.longest_wait = self.longest_wait_of_oldest = 0
        self.crowds: list[tuple[int, int, int]] = []  # requests, positions, rows where memory was too small

    @property
    def busy(self) -> bool:
        return self.schedule.busy

    @property
    def whole(self) -> bool:
        return self.schedule.whole

    @property
    def final(self) -> bool:
        return self.schedule.final

    def cancel(self, request: int) -> None:
        raise NotImplementedError

    def refill(self) -> list[Request]:
        entering = list(self.schedule.refill())
        self.sources |= {request.index: len(request.source) for request in entering}
        return entering

    def select(self, rows: Rows) -> Rows:
        selected = self.schedule.select(rows)
        ran = set(selected.request.tolist())
        for index in self.sources:
            self.waited[index] = 0 if index in ran else self.waited[index] + 1
            self.longest_wait = max(self.longest_wait, self.waited[index])
        oldest = next(iter(self.sources))
        self.longest_wait_of_oldest = max(self.longest_wait_of_oldest, self.waited[oldest])
        return selected

    def apply(self, move: StepResult) -> Rows:
        rows = self.schedule.apply(move)
        positions = sum(self.sources.values())
        if not self.memory.fits(positions, len(rows)):
            self.crowds.append((len(self.sources), positions, len(rows)))
        for index in move.finished:
            del self.sources[index]
        return rows


def run(seed: int, options: ScheduleOptions, margin: float | None) -> tuple[dict[int, list[Hypothesis]], Watched]:
    model, requests = ToyModel(seed, eos_bias=1.0), toy_requests(25, seed)
    output_layer = ToyLayer(*model.output(), steps=4)
    search_options = SearchOptions(beam_size=BEAM, max_length=12, max_score_margin=margin)
    search = BeamSearch(search_options, BOS, EOS, output_layer.vocab_size)
    plan = Plan(requests, options, BEAM, 1, FOOTPRINT)
    watched = Watched(plan.schedule(), Memory(options.max_memory, FOOTPRINT, BEAM))
    return dict(decode(model.open(), output_layer, search, watched)), watched


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    schedule=st.sampled_from(["batches", *ORDERS]),
    max_memory=st.sampled_from([1, 5_000, 12_000, 30_000, 60_000]),
    max_step_rows=st.sampled_from([3, 12]),
    margin=st.sampled_from([None, 1.5]),
)
@example(seed=5, schedule="stream", max_memory=60_000, max_step_rows=3, margin=None)  # many enter at once, beams being
@example(seed=0, schedule="stream", max_memory=30_000, max_step_rows=3, margin=1.5)  # wider than they were before
def test_memory_stays_within_its_budget(seed, schedule, max_memory, max_step_rows, margin) -> None:
    expected, _ = run(seed, ScheduleOptions(), margin)
    options = ScheduleOptions(schedule=schedule, max_memory=max_memory, max_step_rows=max_step_rows, max_rows=500)
    result, watched = run(seed, options, margin)
    assert result == expected
    assert all(requests == 1 for requests, _, _ in watched.crowds)  # a large one, alone


def test_beams_that_grow_together_wait() -> None:
    """Requests enter by the width that those before them had; here the later ones have wide beams."""
    options = ScheduleOptions(schedule="stream", max_memory=20_000, max_rows=500, refill_at=0.9)
    result, watched = run(7, options, margin=2.0)
    assert watched.longest_wait > 0 and watched.crowds == []
    assert result == run(7, ScheduleOptions(), margin=2.0)[0]


@pytest.mark.parametrize("max_wait", [1, 2, 4])
def test_no_request_waits_longer_than_it_may(max_wait: int) -> None:
    starved = ScheduleOptions(schedule="stream-shortest", max_rows=40, refill_at=0.9)
    expected, watched = run(3, starved, None)
    assert watched.longest_wait > 4
    result, watched = run(3, replace(starved, max_wait=max_wait), None)
    assert result == expected and watched.longest_wait == max_wait


def test_the_oldest_goes_first_where_steps_are_limited() -> None:
    starved = ScheduleOptions(schedule="stream-shortest", max_rows=100, refill_at=0.9, max_step_rows=2 * BEAM)
    expected, watched = run(3, starved, None)
    assert watched.longest_wait_of_oldest > 3
    result, watched = run(3, replace(starved, max_wait=3), None)
    assert result == expected and watched.longest_wait_of_oldest <= 3


def test_batches_end_where_memory_does() -> None:
    queue = RequestQueue([Request(i, np.zeros(size, np.int32)) for i, size in enumerate((9, 3, 3, 3, 2))], 1000)
    memory = Memory(6 * 100 + 2 * BEAM * (1000 + 2 * BEAM * 40), FOOTPRINT, BEAM)
    packed = [queue.take(queue.in_batch(memory)) for _ in range(3)]
    assert [[request.index for request in batch] for batch in packed] == [[0], [1, 2], [3, 4]]


def test_schedules_of_one_worker_share_its_memory() -> None:
    shared = Usage()
    one, other = (Memory(10_000, FOOTPRINT, BEAM, shared) for _ in range(2))
    assert other.fits(100, 0)
    one.use(60, 0)
    assert other.fits(40, 0) and not other.fits(41, 0) and one.fits(100, 0)
    one.use(0, 0)
    assert other.fits(100, 0)


def test_workers_share_the_memory() -> None:
    options = ScheduleOptions(schedule="stream", max_memory=40_000, max_rows=500)
    alone, shared = (Plan(toy_requests(25, 1), options, BEAM, threads, FOOTPRINT).schedule() for threads in (1, 4))
    assert len(alone.refill()) > 2 * len(shared.refill())
