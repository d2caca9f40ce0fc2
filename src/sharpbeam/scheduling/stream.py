"""Streams (continuous batching), schedule="stream": requests enter while others run (STREAM, Algorithm 1).

decoding/loop.py calls `refill` before each step for the requests that enter, `select` for the rows that take the step,
and `apply` with the survivors and the requests that are done. No answer depends on the schedule (default: batches.py).

A full stream holds about `max_rows` live rows. How many requests these are depends on how wide beams are: a request
counts for `most_rows` rows until the first one is done, then for the average of past requests. Once only the share
`refill_at` (epsilon) of a full stream is left, it is filled up. So requests with different lengths are in flight, and
a schedule chooses which take the next step:

* "stream": all. Nothing waits, and steps are as wide as can be. The paper's reason against rows of different
  lengths, the padding of caches, does not hold here: our caches are ragged.
* "stream-shortest": the requests with the fewest tokens only, as in VAR-STREAM. With `max_step_rows` that many rows,
  those with the fewest tokens first (the paper's section 3, last paragraph).
* "stream-longest": `max_step_rows` rows, those with the most tokens first (VAR-STR-FIFO, appendix A.2).

In "stream" with `max_step_rows` those that waited go first. Those that have waited `max_wait` steps go before all
others, the oldest first (the paper's footnote 3).

With `max_memory` a request enters only if it fits, and beams that grow together beyond the budget wait: then the
oldest ones continue alone. Only a request that is alone too large passes the budget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sharpbeam.options.decode import ScheduleOptions
from sharpbeam.scheduling.memory import Memory
from sharpbeam.scheduling.queue import RequestQueue
from sharpbeam.types import Request, Rows, StepResult

Index = NDArray[np.intp]


@dataclass(slots=True)
class _InFlight:
    """The record that a stream keeps of a request."""

    entered: int  # how many requests entered before it
    positions: int  # of its source
    ran: int  # the last step that it took, or the last one before it entered


class Stream:
    """The schedule of one worker: requests, one at a time, from the shared queue."""

    def __init__(
        self,
        queue: RequestQueue,
        options: ScheduleOptions,
        most_rows: int,
        workers: int = 1,
        memory: Memory | None = None,
        most_requests: float = math.inf,
    ) -> None:
        """One of `workers` streams, each of which leaves the others their share of the requests.

        At most `most_requests` are in flight, and at most `most_rows` rows of each.
        """
        self._queue, self._options, self._most_rows, self._workers = queue, options, most_rows, workers
        self._memory, self._most_requests = memory, most_requests
        self._flight: dict[int, _InFlight] = {}
        self._entered = self._step = self._positions = 0
        self._rows_run = self._requests_run = self._done = 0  # over all steps
        self._live = 0  # rows
        self._paused = Rows.empty()
        self._limited = False  # whether requests waited in the last step, or may wait in the next ones

    @property
    def final(self) -> bool:
        """Whether no more requests will come."""
        return self._queue.final

    @property
    def busy(self) -> bool:
        """Whether requests are in flight or waiting, and the run was not called off."""
        return bool(self._flight or len(self._queue)) and not self._queue.closed

    @property
    def whole(self) -> bool:
        """Whether all live rows run, and no request waits or can come."""
        return not self._limited and self._queue.final and not len(self._queue)

    def refill(self) -> Sequence[Request]:
        """As many requests as fit, if only few are left."""
        if not len(self._queue) or len(self._flight) * self._width > self._options.refill_at * self._options.max_rows:
            return ()
        share = -(-self._queue.unfinished // self._workers)
        most = min(share, self._most_requests) - len(self._flight)
        entering = self._queue.take(
            lambda requests, positions, _: requests <= most and self._fits(requests, self._positions + positions)
        )
        for request in entering:
            self._flight[request.index] = _InFlight(self._entered, len(request.source), self._step)
            self._positions += len(request.source)
            self._entered += 1
        return entering

    def select(self, rows: Rows) -> Rows:
        """The rows that the schedule puts first."""
        self._paused = Rows.empty()
        self._step += 1
        options, requests = self._options, len(self._flight)
        cap = options.max_step_rows
        free = math.inf if self._memory is None else self._memory.rows(self._positions) - self._most_rows - len(rows)
        crowded = requests * self._most_rows - len(rows) > free
        self._limited = requests > 1 and (crowded or options.schedule == "stream-shortest" or cap is not None)
        if not self._limited or (not crowded and cap is not None and len(rows) <= cap):
            self._rows_run += len(rows)
            self._requests_run += requests
            if options.max_wait is not None:
                for entry in self._flight.values():
                    entry.ran = self._step
            return rows
        first = np.append(0, (rows.request[1:] != rows.request[:-1]).nonzero()[0] + 1)  # [B]
        size = np.append(first[1:], len(rows)) - first  # [B]
        flight = [self._flight[index] for index in rows.request[first].tolist()]
        runs = self._runs(flight, size, rows.length[first], free)
        for entry, run in zip(flight, runs.tolist(), strict=True):
            if run:
                entry.ran = self._step
        selected = runs.repeat(size)
        self._paused = rows.select(~selected)
        self._rows_run += int(selected.sum())
        self._requests_run += int(runs.sum())
        return rows.select(selected)

    def apply(self, result: StepResult) -> Rows:
        """The rows that waited, then the surviving ones."""
        self._live = len(self._paused) + len(result.rows)
        self._done += len(result.finished)
        for request in result.finished:
            self.leave(request)
        self._note()
        return self._paused.extend(result.rows) if len(self._paused) else result.rows

    def leave(self, request: int) -> None:
        """Record that a request in flight is done or dropped."""
        self._positions -= self._flight.pop(request).positions
        self._queue.leave(1)
        self._note()

    @property
    def _width(self) -> float:
        """The rows that a request is expected to have."""
        return max(1.0, self._rows_run / max(self._requests_run, 1)) if self._done else self._most_rows

    def _note(self) -> None:
        """Record the current use in `memory`."""
        if self._memory is not None:
            self._memory.use(self._positions, self._live + self._most_rows if self._flight else 0)

    def _runs(self, flight: list[_InFlight], size: Index, length: Index, free: float) -> NDArray[np.bool_]:
        """Which of the requests [B] in flight take this step; `free` rows fit in addition to the live ones."""
        order, cap = self._options.schedule, self._options.max_step_rows
        wait = self._options.max_wait
        late = np.array([wait is not None and self._step - entry.ran > wait for entry in flight])  # [B]
        age = np.array([entry.entered for entry in flight])
        sign = {"stream": 0, "stream-shortest": 1, "stream-longest": -1}[order]
        ranked = np.lexsort((np.where(late, age, sign * length), ~late))  # stable: those who waited come first
        allowed = late | (length == length.min()) if cap is None and sign else np.ones_like(late)
        growth = np.maximum(self._most_rows - size, 0)  # what each may add at most
        if growth[allowed].sum() > free:
            ranked = age.argsort()
            allowed[:] = False
            allowed[ranked[growth[ranked].cumsum() <= free]] = True
            allowed[ranked[0]] = True
        if cap is None:
            return allowed
        ranked = ranked[allowed[ranked]]
        runs = np.zeros_like(allowed)
        runs[ranked[size[ranked].cumsum() <= cap]] = True
        runs[ranked[0]] = True  # even if it alone has more rows
        return runs

    def _fits(self, entering: int, positions: int) -> bool:
        """Whether `entering` requests may enter, with sources of `positions` positions then in flight."""
        requests = len(self._flight) + entering
        if requests == 1:
            return True  # one request always runs
        rows = max(requests * self._width, self._live + entering)  # expected of all, but no fewer than there will be
        if rows > self._options.max_rows:
            return False
        return self._memory is None or self._memory.fits(positions, rows + self._most_rows)
