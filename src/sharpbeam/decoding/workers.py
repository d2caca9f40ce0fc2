"""Several workers on one queue of batches: threads that decode side by side, and stop together."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


class _Stopped:
    """The last thing a worker says: that it is at its end, and the error that ended it, if one did."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


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
    said: SimpleQueue[T | _Stopped] = SimpleQueue()

    def loop() -> None:
        try:
            for item in work():
                said.put(item)
            said.put(_Stopped(None))
        except BaseException as error:  # any error must reach the caller, or it would wait for ever
            said.put(_Stopped(error))

    workers = [Thread(target=loop, name=f"sharpbeam-{i}", daemon=True) for i in range(threads)]
    try:
        for worker in workers:
            worker.start()
        running = threads
        while running:
            item = said.get()
            if not isinstance(item, _Stopped):
                yield item
            elif item.error is not None:
                raise item.error
            else:
                running -= 1
    finally:
        stop()
        for worker in workers:
            if worker.ident is not None:
                worker.join()
