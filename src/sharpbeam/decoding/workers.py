"""Threads of a decoding run: workers that decode next to each other, and teams that share the work of one worker."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TypeVar

from sharpbeam._core import Team, ended
from sharpbeam.errors import SharpbeamError

T = TypeVar("T")
MOST = 8  # threads of a team: with more of them the parts of a matmul are too small to be worth handing over


def run_workers(work: Callable[[], Iterator[T]], stop: Callable[[], None], threads: int) -> Generator[T, None, None]:
    """Yield what `threads` calls of `work` yield, in any order.

    One thread means the caller's own, none does nothing. When the caller closes the iterator, is interrupted, or a
    worker raises, `stop` is called, which must make every call of `work` end soon, and all threads have ended before
    this returns; a worker's error is raised here.
    """
    if threads == 1:
        try:
            yield from work()
        finally:
            stop()
        return
    items: SimpleQueue[tuple[T] | BaseException | None] = SimpleQueue()  # None: a worker has ended
    process = os.getpid()

    def loop() -> None:
        try:
            for item in work():
                items.put((item,))
            items.put(None)
        except BaseException as error:  # any error must reach the caller, or the caller would wait forever
            items.put(error)

    workers = [Thread(target=loop, name=f"sharpbeam-{i}", daemon=True) for i in range(threads)]
    try:
        for worker in workers:
            worker.start()
        running = threads
        while running:
            check_process(process)
            item = items.get()
            if isinstance(item, BaseException):
                raise item
            if item is None:
                running -= 1
            else:
                yield item[0]
    finally:
        if not lost(process):
            stop()
            for worker in workers:
                if worker.ident is not None:
                    worker.join()


def lost(process: int) -> bool:
    """Whether threads of `process` (0: none) cannot be waited for: this is a fork of it, or Python ends.

    What they held when they were left, a lock perhaps, they hold for good.
    """
    return process != 0 and (os.getpid() != process or ended())


def check_process(process: int) -> None:
    """Raise SharpbeamError where threads of `process` (0: none) are asked for in a fork of it."""
    if process and process != os.getpid():
        raise SharpbeamError(
            "the process was forked while threads of this session or iterator were decoding; they stay in the parent. "
            "Open a new one in this process."
        )


_ALONE = (Team(1),)


class Teams:
    """The threads of a model that are not workers. They are kept for the next run and sleep until then."""

    def __init__(self, threads: int) -> None:
        self._threads, self._lent = threads, 0
        self._idle: dict[int, list[Team]] = {}  # by their threads
        self._lock = Lock()

    def lend(self, workers: int) -> Sequence[Team]:
        """A team for each of `workers` threads until `take_back`, all of one size.

        All runs together have no more than all threads: a single worker gets every one, and if there are as many
        workers as threads, or all threads are already lent, a worker runs alone.
        """
        if self._threads == workers == 1:
            return _ALONE
        with self._lock:
            free = self._threads - self._lent - workers
            size = 1 + min(max(0, free) // max(1, workers), MOST - 1)
            self._lent += workers * size
            idle = self._idle.setdefault(size, [])
            return [idle.pop() if idle else Team(size) for _ in range(workers)]

    def take_back(self, teams: Sequence[Team]) -> None:
        """Keep the teams that `lend` returned for the next run."""
        if teams is not _ALONE:
            with self._lock:
                for team in teams:
                    self._lent -= team.threads
                    self._idle[team.threads].append(team)
