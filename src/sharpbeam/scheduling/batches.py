"""Fixed batches: the next one enters when all requests of the last are done (continuous batching: stream.py)."""

from __future__ import annotations

from collections.abc import Sequence

from sharpbeam.scheduling.memory import Memory
from sharpbeam.scheduling.queue import Fits, RequestQueue
from sharpbeam.types import Request, Rows, StepResult


class FixedBatches:
    """The schedule of one worker: a batch at a time from the shared queue."""

    whole = True

    def __init__(self, queue: RequestQueue, memory: Memory | None = None, fits: Fits | None = None) -> None:
        """A batch holds the requests that `fits` allows, or by default the queue's token budget and `memory`."""
        self._queue, self._memory, self._fits = queue, memory, fits or queue.in_batch(memory)
        self._live: set[int] = set()

    @property
    def final(self) -> bool:
        """Whether no more requests will come."""
        return self._queue.final

    @property
    def busy(self) -> bool:
        """Whether requests are in flight or waiting, and the run was not called off."""
        return bool(self._live or len(self._queue)) and not self._queue.closed

    def refill(self) -> Sequence[Request]:
        """A whole batch if nothing is in flight."""
        if self._live:
            return ()
        entering = self._queue.take(self._fits)
        for request in entering:
            self._live.add(request.index)
        if self._memory is not None:
            positions = sum(len(request.source) for request in entering)
            self._memory.use(positions, len(entering) * self._memory.most_rows)
        return entering

    def select(self, rows: Rows) -> Rows:
        """All of them."""
        return rows

    def apply(self, result: StepResult) -> Rows:
        """All surviving rows."""
        for request in result.finished:
            self.leave(request)
        return result.rows

    def leave(self, request: int) -> None:
        """Record that a request in flight is done or dropped."""
        self._live.remove(request)
        self._queue.leave(1)
        if self._memory is not None and not self._live:
            self._memory.use(0, 0)
