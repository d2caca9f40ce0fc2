"""Progress on stderr: a bar if that is a terminal, else a line a minute, so that a job's log tells how far it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LINE_SECONDS = 60.0  # between lines where there is no terminal


class Bar:
    """A bar of sentences, or of another unit. Calling it with the number that were just done moves it on."""

    def __init__(self, title: str, total: int | None, unit: str) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self._unit = unit
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task(title, total=total, rate="")
        self._progress.start()

    def __call__(self, number: int, /) -> None:
        """So many more are done."""
        speed = self._progress.tasks[0].speed
        rate = f"{speed:.0f} {self._unit}/s" if speed else ""
        self._progress.update(self._task, advance=number, rate=rate)

    def stop(self) -> None:
        """Take the bar away."""
        self._progress.stop()


class Lines:
    """The same for a log: a line at most every LINE_SECONDS."""

    def __init__(self, title: str, total: int | None, unit: str) -> None:
        self._title, self._total, self._unit = title, total, unit
        self._done = 0
        self._began = self._said = time.monotonic()

    def __call__(self, number: int, /) -> None:
        """So many more are done."""
        self._done += number
        now = time.monotonic()
        if now - self._said >= LINE_SECONDS:
            self._said = now
            of = "" if self._total is None else f" of {self._total:,}"
            rate = self._done / (now - self._began)
            print(f"{self._title}: {self._done:,}{of} {self._unit}, {rate:.1f} a second", file=sys.stderr, flush=True)

    def stop(self) -> None:
        """Nothing is left to do."""


@contextmanager
def progress_bar(
    title: str, total: int | Callable[[], int | None] | None, shown: bool = True, unit: str = "sentences"
) -> Iterator[Callable[[int], None]]:
    """Progress while the block runs; `total` is None where it is not known, or called where it is needed."""
    if not shown:
        yield lambda number: None
        return
    if callable(total):
        total = total() if sys.stderr.isatty() else None
    bar = (Bar if sys.stderr.isatty() else Lines)(title, total, unit)
    try:
        yield bar
    finally:
        bar.stop()
