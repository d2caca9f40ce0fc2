"""What a run is decoded with: the queue that its workers share, and a schedule for each of them."""

from __future__ import annotations

from collections.abc import Sequence

from quickbeam.options.decode import ScheduleOptions
from quickbeam.schedule.batches import BatchQueue, FixedBatches, pack
from quickbeam.schedule.door import Schedule
from quickbeam.schedule.stream import Stream
from quickbeam.types import Request


class Plan:
    """The schedules that the options ask for."""

    def __init__(self, requests: Sequence[Request], options: ScheduleOptions, most_rows: int, threads: int) -> None:
        """At most `threads` workers; a request in a stream counts for `most_rows` rows."""
        self._options = options
        batches = pack(requests, options.batch_tokens)
        if options.schedule != "batches":  # one by one, in the same order
            batches = [[request] for batch in batches for request in batch]
        self.queue = BatchQueue(batches)
        self.workers = min(threads, len(batches))
        """No more than there is work for; none for none."""
        share = -(-len(batches) // max(self.workers, 1))  # so that a stream leaves some for the others
        self._most = max(1, min(options.max_rows // most_rows, share))

    def schedule(self) -> Schedule:
        """A schedule for one worker."""
        if self._options.schedule == "batches":
            return FixedBatches(self.queue)
        return Stream(self.queue, self._options, self._most)
