"""What a run is decoded with: the queue that its workers share, and a schedule for each of them."""

from __future__ import annotations

from collections.abc import Sequence

from sharpbeam.options.decode import ScheduleOptions
from sharpbeam.scheduling.batches import BatchQueue, FixedBatches, pack, token_budget
from sharpbeam.scheduling.interface import Schedule
from sharpbeam.scheduling.memory import Memory
from sharpbeam.scheduling.stream import Stream
from sharpbeam.types import Footprint, Request


class Plan:
    """The schedules that the options ask for."""

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
        self._options, self._most_rows = options, most_rows
        # However long the requests take, there are never more workers than requests.
        share = None if options.max_memory is None else options.max_memory // max(1, min(threads, len(requests)))
        self._memory = None if share is None else Memory(share, footprint, most_rows)
        batches = pack(requests, token_budget(requests, options.batch_tokens, threads), self._fits)
        if options.schedule != "batches":  # one by one, in the same order
            batches = [[request] for batch in batches for request in batch]
        self.queue = BatchQueue(batches)
        self.workers = min(threads, len(batches))
        """No more than there is work for; none for none."""
        self._most = -(-len(batches) // max(self.workers, 1))  # so that a stream leaves some for the others

    def _fits(self, positions: int, requests: int) -> bool:
        """Whether a batch has room, whose rows can be as many as its requests allow: it cannot make any wait."""
        return self._memory is None or self._memory.fits(positions, requests * self._most_rows)

    def schedule(self) -> Schedule:
        """A schedule for one worker."""
        if self._options.schedule == "batches":
            return FixedBatches(self.queue)
        return Stream(self.queue, self._options, self._most_rows, self._most, self._memory)
