"""Threads that share the work of one worker, where there are fewer workers than threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from sharpbeam._core import Team

MOST = 8  # threads of a team: behind that the parts of a product are too small to be worth handing over


class Teams:
    """What a model's `threads` do beside being workers. They are kept for the next run, asleep until then."""

    def __init__(self, threads: int) -> None:
        self._threads, self._lent = threads, 0
        self._idle: list[Team] = []
        self._lock = Lock()

    @contextmanager
    def lend(self, workers: int) -> Iterator[list[Team]]:
        """A team for each of `workers` threads, all of one size; runs side by side have no more than all threads.

        One worker gets all threads, as many workers as threads get none beside themselves, and nor does who comes
        while all are lent.
        """
        with self._lock:
            free = self._threads - self._lent - workers
            size = 1 + min(max(0, free) // max(1, workers), MOST - 1)
            teams = [self._take(size) for _ in range(workers)]
            self._lent += workers * size
        try:
            yield list(teams)
        finally:
            with self._lock:
                self._lent -= workers * size
                self._idle += teams

    def _take(self, size: int) -> Team:
        for place, team in enumerate(self._idle):
            if team.threads == size:
                return self._idle.pop(place)
        return Team(size)
