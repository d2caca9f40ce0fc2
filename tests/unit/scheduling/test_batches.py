"""Batches: every request once, under the budget, longest first; and the life of a batch."""

from __future__ import annotations

from threading import Thread

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sharpbeam.scheduling.batches import FixedBatches
from sharpbeam.scheduling.queue import LEAST_TOKENS, MOST_TOKENS, WORKER_TOKENS, RequestQueue, token_budget
from sharpbeam.types import Request, Rows, StepResult


def request(index: int, length: int) -> Request:
    return Request(index, np.zeros(length, np.int32))


def batches_of(queue: RequestQueue) -> list[list[Request]]:
    batches = []
    while batch := queue.take_batch():
        batches.append(batch)
    return batches


@given(lengths=st.lists(st.integers(1, 30)), batch_tokens=st.integers(1, 100))
def test_every_request_is_in_one_batch_under_the_budget(lengths: list[int], batch_tokens: int) -> None:
    queue = RequestQueue([request(i, n) for i, n in enumerate(lengths)], batch_tokens)
    assert (len(queue), queue.tokens) == (len(lengths), sum(lengths))
    counted = [queue.batches(most) for most in range(len(lengths) + 1)]
    batches = batches_of(queue)
    assert counted == [min(most, len(batches)) for most in range(len(lengths) + 1)]
    packed = [r for batch in batches for r in batch]
    assert sorted(r.index for r in packed) == list(range(len(lengths)))
    assert [(-len(r.source), r.index) for r in packed] == sorted((-len(r.source), r.index) for r in packed)
    for batch in batches:
        assert len(batch[0].source) * len(batch) <= batch_tokens or len(batch) == 1
    for batch in batches[:-1]:  # they are really full
        assert len(batch[0].source) * (len(batch) + 1) > batch_tokens
    assert (len(queue), queue.tokens) == (0, 0)


@given(lengths=st.lists(st.integers(1, 60), max_size=200), workers=st.integers(1, 8))
def test_the_default_budget_leaves_every_worker_a_fair_share(lengths: list[int], workers: int) -> None:
    requests, tokens = [request(i, n) for i, n in enumerate(lengths)], sum(lengths)
    budget = token_budget(tokens, 0, workers)
    assert LEAST_TOKENS <= budget <= MOST_TOKENS and token_budget(tokens, 77, workers) == 77
    assert budget == MOST_TOKENS or workers > 1
    assert budget * workers <= MOST_TOKENS or budget <= WORKER_TOKENS  # no more in flight than with one worker
    if workers > 1 and tokens >= 2 * LEAST_TOKENS * workers:
        assert RequestQueue(requests, budget).batches(workers) == workers


def test_requests_leave_by_priority_then_by_group_then_by_length() -> None:
    queue = RequestQueue([request(0, 2), request(1, 5)], batch_tokens=1)
    queue.add([request(2, 9)])
    queue.add([request(3, 1), request(4, 3)], priority=1)
    queue.add([request(5, 8)], priority=-1)
    assert [r.index for batch in batches_of(queue) for r in batch] == [4, 3, 1, 0, 2, 5]


def test_a_batch_of_several_groups_is_measured_by_its_longest_source() -> None:
    queue = RequestQueue(batch_tokens=12)
    for index, length in enumerate((2, 5, 2, 1)):
        queue.add([request(index, length)])
    assert [[r.index for r in batch] for batch in batches_of(queue)] == [[0, 1], [2, 3]]


def test_a_cancelled_request_does_not_wait_any_more() -> None:
    queue = RequestQueue([request(i, 4) for i in range(4)], batch_tokens=8)
    assert queue.cancel(1) and not queue.cancel(1) and not queue.cancel(9)
    assert (len(queue), queue.tokens, queue.unfinished) == (3, 12, 3)
    assert [r.index for r in queue.take_batch()] == [0, 2]
    assert not queue.cancel(0)  # it was taken
    queue.leave(2)
    assert queue.unfinished == 1


def test_cancelled_requests_take_no_memory_and_all_can_be_drained() -> None:
    queue = RequestQueue([request(0, 4)])
    for index in range(1, 1000):
        queue.add([request(index, 4)], priority=-1)
        assert queue.cancel(index)
    assert len(queue._heap) < 100
    queue.add([request(1000, 3)])
    assert queue.drain() == [0, 1000]
    assert (len(queue), queue.tokens, queue.unfinished) == (0, 0, 0)


def test_every_request_is_taken_once_while_threads_add_and_cancel() -> None:
    queue, entered, cancelled = RequestQueue(batch_tokens=30), list[list[int]](), list[list[int]]()

    def add(first: int) -> None:
        gone = []
        for index in range(first, first + 500):
            queue.add([request(index, 1 + index % 7)])
            if index % 3 == 0 and queue.cancel(index):
                gone.append(index)
        cancelled.append(gone)

    def take() -> None:
        mine: list[int] = []
        while sum(map(len, entered)) + len(mine) < 2000 and (adding() or len(queue)):
            mine += [r.index for r in queue.take_batch()]
        entered.append(mine)

    adders = [Thread(target=add, args=(first,)) for first in range(0, 2000, 500)]
    takers = [Thread(target=take) for _ in range(3)]

    def adding() -> bool:
        return any(thread.is_alive() for thread in adders)

    for thread in (*adders, *takers):
        thread.start()
    for thread in (*adders, *takers):
        thread.join()
    assert sorted(i for each in (*entered, *cancelled) for i in each) == list(range(2000))
    assert (len(queue), queue.tokens) == (0, 0)


def rows(*indices: int) -> Rows:
    ids = np.array(indices, np.int32)
    return Rows(ids, ids, ids, ids, ids, np.zeros(len(ids)))


def test_the_next_batch_enters_when_all_of_the_last_are_done() -> None:
    first, second = [request(0, 5), request(1, 5)], [request(2, 3)]
    schedule = FixedBatches(RequestQueue([*first, *second], 10))
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
    schedule.leave(2)
    assert not schedule.busy and schedule.refill() == []


def test_no_batch_no_work() -> None:
    assert not FixedBatches(RequestQueue()).busy


def test_two_schedules_share_the_batches_of_a_queue() -> None:
    queue = RequestQueue([request(0, 5), request(1, 4), request(2, 3)], 1)
    one, two = FixedBatches(queue), FixedBatches(queue)
    assert [r.index for r in (*one.refill(), *two.refill())] == [0, 1]
    assert len(queue) == 1
    one.apply(StepResult(rows(), {0: []}))
    assert [r.index for r in one.refill()] == [2]
    two.apply(StepResult(rows(), {1: []}))
    assert (one.busy, two.busy) == (True, False)


def test_a_closed_queue_ends_what_is_in_flight() -> None:
    queue = RequestQueue([request(0, 5), request(1, 4)], 1)
    schedule = FixedBatches(queue)
    schedule.refill()
    queue.close()
    queue.add([request(2, 1)])
    assert not schedule.busy
    assert queue.take_batch() == []
