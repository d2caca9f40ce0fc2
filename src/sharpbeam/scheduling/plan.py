"""The queue of requests with the same options, with a schedule for each of the workers that share it."""

from __future__ import annotations

from collections.abc import Sequence

from sharpbeam.options.decode import ScheduleOptions
from sharpbeam.scheduling.batches import FixedBatches
from sharpbeam.scheduling.interface import Schedule
from sharpbeam.scheduling.memory import Memory, Usage
from sharpbeam.scheduling.queue import RequestQueue
from sharpbeam.scheduling.stream import Stream
from sharpbeam.types import Footprint, Request


class Plan(RequestQueue):
    """A queue whose workers take requests by the options of their schedules."""

    def __init__(
        self,
        requests: Sequence[Request],
        options: ScheduleOptions,
        most_rows: int,
        threads: int,
        footprint: Footprint = Footprint(0, 0),  # noqa: B008 (frozen)
    ) -> None:
        """At most `threads` workers share `max_memory`, by the model's `footprint`.

        A request has at most `most_rows` rows.
        """
        self._options, self._most_rows, self._threads, self._footprint = options, most_rows, threads, footprint
        super().__init__(requests, options.batch_tokens, threads)

    @property
    def workers(self) -> int:
        """Number of workers that there is work for now, at most `threads`."""
        most = min(self._threads, len(self))
        return most if self._options.schedule != "batches" else self.batches(most, self._memory(most, None))

    def schedule(self, workers: int = 0, shared: Usage | None = None) -> Schedule:
        """The schedule of one of `workers` workers (0 = the plan's); `shared` is the memory of all its schedules."""
        workers = workers or self.workers
        memory = self._memory(workers, shared)
        if self._options.schedule == "batches":
            return FixedBatches(self, memory)
        return Stream(self, self._options, self._most_rows, workers, memory)

    def _memory(self, workers: int, shared: Usage | None) -> Memory | None:
        limit = self._options.max_memory
        return Memory(limit // max(workers, 1), self._footprint, self._most_rows, shared) if limit is not None else None
