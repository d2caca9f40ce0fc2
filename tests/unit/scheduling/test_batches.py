"""Batches: every request once, under the budget, longest first; and the life of a batch."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sharpbeam.scheduling.batches import (
    LEAST_TOKENS,
    MOST_TOKENS,
    WORKER_TOKENS,
    BatchQueue,
    FixedBatches,
    pack,
    token_budget,
)
from sharpbeam.types import Request, Rows, StepResult


def request(index: int, length: int) -> Request:
    return Request(index, np.zeros(length, np.int32))


@given(lengths=st.lists(st.integers(1, 30)), batch_tokens=st.integers(1, 100))
def test_every_request_is_in_one_batch_under_the_budget(lengths: list[int], batch_tokens: int) -> None:
    batches = pack([request(i, n) for i, n in enumerate(lengths)], batch_tokens)
    packed = [r for batch in batches for r in batch]
    assert sorted(r.index for r in packed) == list(range(len(lengths)))
    assert [(-len(r.source), r.index) for r in packed] == sorted((-len(r.source), r.index) for r in packed)
    for batch in batches:
        assert len(batch[0].source) * len(batch) <= batch_tokens or len(batch) == 1
    for batch in batches[:-1]:  # they are really full
        assert len(batch[0].source) * (len(batch) + 1) > batch_tokens


@given(lengths=st.lists(st.integers(1, 60), max_size=200), workers=st.integers(1, 8))
def test_a_budget_that_nobody_gave_leaves_every_worker_a_fair_share(lengths: list[int], workers: int) -> None:
    requests = [request(i, n) for i, n in enumerate(lengths)]
    budget = token_budget(requests, 0, workers)
    assert LEAST_TOKENS <= budget <= MOST_TOKENS and token_budget(requests, 77, workers) == 77
    assert budget == MOST_TOKENS or workers > 1
    assert budget * workers <= MOST_TOKENS or budget <= WORKER_TOKENS  # no more in flight than with one worker
    if workers > 1 and sum(lengths) >= 2 * LEAST_TOKENS * workers:
        assert len(pack(requests, budget)) >= workers


def rows(*indices: int) -> Rows:
    ids = np.array(indices, np.int32)
    return Rows(ids, ids, ids, ids, ids, np.zeros(len(ids)))


def test_the_next_batch_enters_when_all_of_the_last_are_done() -> None:
    first, second = [request(0, 5), request(1, 5)], [request(2, 3)]
    schedule = FixedBatches(BatchQueue([first, second]))
    assert schedule.busy
    assert schedule.refill() == first
    live = rows(0, 1)
    assert schedule.apply(StepResult(live, {})) is live
    assert schedule.refill() == ()
    schedule.apply(StepResult(rows(1), {0: []}))
    assert schedule.refill() == ()
    schedule.apply(StepResult(rows(), {1: []}))
    assert schedule.busy
    assert schedule.refill() == second
    schedule.apply(StepResult(rows(), {2: []}))
    assert not schedule.busy


def test_no_batch_no_work() -> None:
    assert not FixedBatches(BatchQueue([])).busy


def test_two_schedules_share_the_batches_of_a_queue() -> None:
    queue = BatchQueue([[request(0, 5)], [request(1, 4)], [request(2, 3)]])
    one, two = FixedBatches(queue), FixedBatches(queue)
    assert len(queue) == 1
    assert [r.index for r in (*one.refill(), *two.refill())] == [0, 1]
    one.apply(StepResult(rows(), {0: []}))
    two.apply(StepResult(rows(), {1: []}))
    assert (one.busy, two.busy) == (True, False)


def test_a_closed_queue_ends_what_is_in_flight() -> None:
    queue = BatchQueue([[request(0, 5)], [request(1, 4)]])
    schedule = FixedBatches(queue)
    schedule.refill()
    queue.close()
    assert not schedule.busy
    assert queue.take() is None
