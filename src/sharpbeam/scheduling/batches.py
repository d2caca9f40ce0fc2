"""Fixed batches: requests of similar length are decoded together, and the next batch enters when all of it are done."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from threading import Lock

from sharpbeam.types import Request, Rows, StepResult

Batch = list[Request]

# Of the batches of all workers together, where nobody has said how many: what is in flight takes as much memory with
# several workers as with one. But a worker has so many that some dozens of rows share weights, and fewer only where
# there are few for each; never so few that a batch is slower than its share of a larger one.
MOST_TOKENS, WORKER_TOKENS, LEAST_TOKENS = 512, 128, 64
SHARES = 4  # batches for each worker at least, so that all of them end at about the same time


def token_budget(requests: Sequence[Request], batch_tokens: int, workers: int) -> int:
    """Tokens of a batch: `batch_tokens`, or what 0 stands for: a worker's share, which leaves everyone some batches."""
    if batch_tokens or workers == 1:
        return batch_tokens or MOST_TOKENS
    tokens = sum(len(request.source) for request in requests)
    share = max(MOST_TOKENS // workers, WORKER_TOKENS)
    return max(LEAST_TOKENS, min(share, tokens // (SHARES * workers)))


def pack(
    requests: Iterable[Request], batch_tokens: int, fits: Callable[[int, int], bool] = lambda positions, requests: True
) -> list[Batch]:
    """Sort by source length, longest first, and cut into batches of at most `batch_tokens` (longest x number).

    `fits` says whether so many source positions of so many requests have room in memory.

    Longest first, so that too little memory shows at once, and short batches end the run: workers stop together.
    Requests of one length keep their order; one that is longer than `batch_tokens`, or does not fit, is alone.
    """
    batches: list[Batch] = []
    positions = 0  # of the last batch
    for request in sorted(requests, key=lambda request: -len(request.source)):
        batch = batches[-1] if batches else []
        many = len(batch) + 1
        positions += len(request.source)
        if batch and len(batch[0].source) * many <= batch_tokens and fits(positions, many):
            batch.append(request)
        else:
            batches.append([request])
            positions = len(request.source)
    return batches


class BatchQueue:
    """Batches that wait, shared by the workers. Any thread may call any method."""

    def __init__(self, batches: Iterable[Batch]) -> None:
        self._batches = deque(batches)
        self._lock = Lock()
        self._closed = False

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def closed(self) -> bool:
        """Whether the run was called off."""
        return self._closed

    def take(self) -> Batch | None:
        """The next batch, or None when there is none."""
        with self._lock:
            return self._batches.popleft() if self._batches else None

    def close(self) -> None:
        """Call the run off: nothing waits any more, and what is in flight is dropped at the next step."""
        with self._lock:
            self._closed = True
            self._batches.clear()


class FixedBatches:
    """The schedule of one worker: a batch at a time from the shared queue."""

    whole = True

    def __init__(self, queue: BatchQueue) -> None:
        self._queue = queue
        self._waiting = queue.take()
        self._live = False

    @property
    def busy(self) -> bool:
        """Whether there are rows in flight or a batch waiting, and the run was not called off."""
        return (self._live or self._waiting is not None) and not self._queue.closed

    def refill(self) -> Sequence[Request]:
        """A whole batch when nothing is in flight, else nothing."""
        if self._waiting is None:
            return ()
        entering, self._waiting, self._live = self._waiting, None, True
        return entering

    def select(self, rows: Rows) -> Rows:
        """All of them."""
        return rows

    def apply(self, move: StepResult) -> Rows:
        """All surviving rows go on; after the last one the next batch is taken."""
        self._live = len(move.rows) > 0
        if not self._live:
            self._waiting = self._queue.take()
        return move.rows
