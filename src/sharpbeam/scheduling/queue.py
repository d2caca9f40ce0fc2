"""Requests that wait for a decoding run, in the order in which they enter it."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from threading import Lock
from typing import TypeAlias

from sharpbeam.scheduling.memory import Memory
from sharpbeam.types import Request

Fits: TypeAlias = Callable[[int, int, int], bool]
"""Whether requests may enter: their number, source positions of all, positions of the longest source."""

# The default token budget of all workers' batches together: several workers keep as many requests in flight as one.
# A worker has at least WORKER_TOKENS, so that dozens of rows share a read of the weights, and fewer only if there is
# little to do for each; a batch below LEAST_TOKENS would be slower than its share of a larger one.
MOST_TOKENS, WORKER_TOKENS, LEAST_TOKENS = 512, 128, 64
MOST_CANCELLED = 64  # requests that are kept in a queue's heap, next to as many as wait
SHARES = 4  # batches of each worker at least, so that all workers end at about the same time


def token_budget(tokens: int, batch_tokens: int, workers: int) -> int:
    """Source tokens of a batch: `batch_tokens`; if that is 0, a worker's share of the `tokens` that wait."""
    if batch_tokens or workers == 1:
        return batch_tokens or MOST_TOKENS
    share = max(MOST_TOKENS // workers, WORKER_TOKENS)
    return max(LEAST_TOKENS, min(share, tokens // (SHARES * workers)))


class RequestQueue:
    """Requests that wait, shared by all workers of a run. Any thread may call any method.

    They leave by priority (higher first), then by group, that is by call of `add`; within a group the longest source
    comes first: a batch has sources of similar length, too little memory shows at once, and short batches end the run,
    so that workers stop together. Requests of one length keep their order.
    """

    def __init__(self, requests: Iterable[Request] = (), batch_tokens: int = 0, workers: int = 1) -> None:
        """`batch_tokens` of a batch: the longest source x the number of requests; a longer request is alone.

        0 is a share for each of `workers` of what waits (`token_budget`).
        """
        self._batch_tokens, self._workers = batch_tokens, workers
        self._budget = token_budget(0, batch_tokens, workers)
        self.final = True
        """Whether no more requests will be added."""
        self.tokens = 0
        """Source tokens of all requests that wait."""
        self.unfinished = 0
        """Requests that wait or are in flight."""
        self._heap: list[tuple[int, int, int, int, Request]] = []  # may hold some that were cancelled
        self._waiting: dict[int, int] = {}  # source tokens of each request
        self._groups = self._added = 0
        self._lock = Lock()
        self.closed = False
        """Whether the run was called off."""
        self.add(requests)

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, requests: Iterable[Request], priority: int = 0) -> None:
        """Add a group of requests; a closed queue ignores them."""
        with self._lock:
            if self.closed:
                return
            for request in requests:
                size = len(request.source)
                heapq.heappush(self._heap, (-priority, self._groups, -size, self._added, request))
                self._waiting[request.index] = size
                self._added += 1
                self.tokens += size
                self.unfinished += 1
            self._groups += 1
            if self._workers > 1:
                self._budget = token_budget(self.tokens, self._batch_tokens, self._workers)

    def cancel(self, index: int) -> bool:
        """Remove a request; False if it does not wait here."""
        with self._lock:
            size = self._waiting.pop(index, None)
            if size is None:
                return False
            self.tokens -= size
            self.unfinished -= 1
            if len(self._heap) > 2 * len(self._waiting) + MOST_CANCELLED:
                self._heap = [each for each in self._heap if each[-1].index in self._waiting]
                heapq.heapify(self._heap)
            return True

    def drain(self) -> list[int]:
        """Remove all requests that wait; returns their indices."""
        return [index for index in tuple(self._waiting) if self.cancel(index)]

    def take(self, fits: Fits) -> list[Request]:
        """Remove and return requests from the front as long as `fits` holds for all of them together."""
        with self._lock:
            batch = self._take(self._heap, fits)
            for request in batch:
                self.tokens -= self._waiting.pop(request.index)
            return batch

    def take_batch(self) -> list[Request]:
        """Remove and return the next batch; empty if no request waits."""
        return self.take(self.in_batch(None))

    def leave(self, requests: int) -> None:
        """Record that `requests` requests in flight are done or cancelled."""
        with self._lock:
            self.unfinished -= requests

    def batches(self, most: int, memory: Memory | None = None) -> int:
        """The number of batches that wait, at most `most`."""
        with self._lock:
            heap, count = self._heap.copy(), 0
            while count < most and self._take(heap, self.in_batch(memory)):
                count += 1
            return count

    def close(self) -> None:
        """Cancel the run: nothing waits any more, and requests in flight are dropped at the next step."""
        with self._lock:
            self.closed = True
            self._heap.clear()
            self._waiting.clear()
            self.tokens = 0

    def in_batch(self, memory: Memory | None) -> Fits:
        """The rule of a batch: one request, or as many as the token budget and `memory` allow."""

        def fits(requests: int, positions: int, longest: int) -> bool:
            if requests == 1 or longest * requests > self._budget:
                return requests == 1
            return memory is None or memory.fits(positions, requests * memory.most_rows)

        return fits

    def _take(self, heap: list[tuple[int, int, int, int, Request]], fits: Fits) -> list[Request]:
        batch: list[Request] = []
        positions = longest = 0
        while heap:
            request = heap[0][-1]
            size = self._waiting.get(request.index)
            if size is not None:
                positions, longest = positions + size, max(longest, size)
                if not fits(len(batch) + 1, positions, longest):
                    break
                batch.append(request)
            heapq.heappop(heap)
        return batch
