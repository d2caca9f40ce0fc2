"""Streams: while some requests are decoded, others enter (STREAM, Algorithm 1).

Once at most `refill_at` (epsilon) of the n requests of a full stream are left, it is filled up to n. So requests with
different lengths are in flight, and there is a choice of who takes the next step:

* "stream": everybody. Nothing waits, and steps are as wide as can be. The paper's reason against rows of different
  lengths, the padding of caches, does not hold here: our caches are ragged.
* "stream-shortest": the requests with the fewest tokens only, as in VAR-STREAM. With `max_step_rows` that many rows,
  those with the fewest tokens first (the paper's section 3, last paragraph).
* "stream-longest": `max_step_rows` rows, those with the most tokens first (VAR-STR-FIFO, appendix A.2).

In "stream" with `max_step_rows` those who waited go first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quickbeam.options.decode import ScheduleOptions
from quickbeam.schedule.batches import BatchQueue
from quickbeam.types import Move, Request, Rows


class Stream:
    """The schedule of one worker: requests, one at a time, from the shared queue."""

    def __init__(self, queue: BatchQueue, options: ScheduleOptions, most: int) -> None:
        """At most `most` requests are in flight."""
        self._queue, self._options, self._most = queue, options, most
        self._low = int(options.refill_at * most)
        self._live = 0  # requests in flight
        self._paused = Rows.empty()
        self._entering = self._draw()

    @property
    def busy(self) -> bool:
        """Whether requests are in flight or about to enter, and the run was not called off."""
        return (self._live > 0 or len(self._entering) > 0) and not self._queue.closed

    def refill(self) -> Sequence[Request]:
        """The requests that were drawn in the last step."""
        entering, self._entering = self._entering, []
        self._live += len(entering)
        return entering

    def select(self, rows: Rows) -> Rows:
        """The rows that the order of this stream puts first."""
        order, cap = self._options.schedule, self._options.max_step_rows
        self._paused = Rows.empty()
        if len(rows) <= 1 or (cap is None and order == "stream") or (cap is not None and len(rows) <= cap):
            return rows
        first = np.append(0, (rows.request[1:] != rows.request[:-1]).nonzero()[0] + 1)  # [B]
        size = np.append(first[1:], len(rows)) - first  # [B]
        length = rows.length[first]  # [B]
        if cap is None:
            runs = length == length.min()
        else:
            sign = {"stream": 0, "stream-shortest": 1, "stream-longest": -1}[order]
            ranked = (sign * length).argsort(kind="stable")
            runs = np.zeros(len(first), np.bool_)
            runs[ranked[size[ranked].cumsum() <= cap]] = True
            runs[ranked[0]] = True  # even if it alone has more rows
        selected = runs.repeat(size)
        self._paused = rows.select(~selected)
        return rows.select(selected)

    def apply(self, move: Move) -> Rows:
        """The rows that waited, then those that go on; draws requests where few are left."""
        self._live -= len(move.finished)
        if self._live <= self._low:
            self._entering = self._draw()
        return self._paused.extend(move.rows) if len(self._paused) else move.rows

    def _draw(self) -> list[Request]:
        """As many requests as there is room for, or as there are."""
        drawn: list[Request] = []
        while len(drawn) < self._most - self._live and (batch := self._queue.take()) is not None:
            drawn += batch
        return drawn
