"""Workers stop together: at the end, at an error, when the caller has enough, and at Ctrl-C."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from quickbeam.engine.workers import run_workers
from quickbeam.schedule.batches import BatchQueue
from quickbeam.types import Request


def full_queue(batches: int) -> BatchQueue:
    return BatchQueue([[Request(i, np.zeros(1, np.int32))] for i in range(batches)])


def ours() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("quickbeam-")]


def drain(queue: BatchQueue) -> Iterator[int]:
    while (batch := queue.take()) is not None:
        yield batch[0].index


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_everything_is_done_once(threads: int) -> None:
    queue = full_queue(50)
    assert sorted(run_workers(lambda: drain(queue), queue, threads)) == list(range(50))
    assert ours() == []


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_reaches_the_caller_and_stops_the_others(threads: int) -> None:
    queue = full_queue(1000)

    def work() -> Iterator[int]:
        for index in drain(queue):
            if index == 7:
                raise ValueError("broken")
            yield index

    with pytest.raises(ValueError, match="broken"):
        list(run_workers(work, queue, threads))
    assert ours() == [] and queue.closed and queue.take() is None


@pytest.mark.parametrize("threads", [1, 3])
def test_closing_stops_endless_work(threads: int) -> None:
    queue = full_queue(0)

    def work() -> Iterator[int]:
        while not queue.closed:
            yield 1

    results = run_workers(work, queue, threads)
    assert next(results) == 1
    results.close()
    assert ours() == []


def test_an_interrupt_stops_the_workers() -> None:
    queue = full_queue(0)

    def work() -> Iterator[int]:
        while not queue.closed:
            yield 1

    results = run_workers(work, queue, 2)
    next(results)
    with pytest.raises(KeyboardInterrupt):
        results.throw(KeyboardInterrupt)
    assert ours() == []
