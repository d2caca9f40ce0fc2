"""Progress on stderr: a bar if that is a terminal, else a line a minute, so that a job's log tells how far it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LINE_SECONDS = 60.0  # between lines without a terminal
Total = int | Callable[[], int | None] | None  # units in all; a function is called once, when it is needed


class Rate:
    """The number of units done, their rate, and the time that the rest will take."""

    def __init__(self, unit: str) -> None:
        self._unit, self.done, self._first, self._began = unit, 0, 0, 0.0

    def advance(self, number: int) -> None:
        """Count units; what comes first may be the work of an interrupted run, and has no rate."""
        if not self._began:
            self._first, self._began = number, time.monotonic()
        self.done += number

    def text(self, total: int | None) -> str:
        """In words: 4,484 of 8,600 sentences, 35 a second, 2 minutes left."""
        rate = (self.done - self._first) / max(time.monotonic() - self._began, 1e-9) if self._began else 0.0
        parts = [f"{self.done:,}{'' if total is None else f' of {total:,}'} {self._unit}"]
        if rate:
            parts.append(f"{rate:.0f} a second" if rate >= 10 else f"{rate:.1f} a second")
            parts += [] if total is None else [f"{duration((total - self.done) / rate)} left"]
        return ", ".join(parts)


def duration(seconds: float) -> str:
    """A time in words, in the largest unit of which there are two or more."""
    for size, unit in ((3600, "hours"), (60, "minutes")):
        if round(seconds / size) >= 2:
            return f"{round(seconds / size)} {unit}"
    return f"{max(round(seconds), 0)} seconds"


@contextmanager
def progress_bar(
    title: str, total: Total, shown: bool = True, unit: str = "sentences"
) -> Iterator[Callable[[int], None]]:
    """Progress while the block runs; yields a function to call with the number of units that were just done.

    `total` is None if it is not known.
    """
    if not shown:
        yield lambda number: None
    elif not sys.stderr.isatty():
        yield _lines(title, total, unit)
    else:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"))
        whole, rate = total() if callable(total) else total, Rate(unit)
        progress = Progress(*columns, console=Console(stderr=True), transient=True)
        task = progress.add_task(title, total=whole, text="")

        def advance(number: int) -> None:
            progress.start()  # not before: a model that is fetched shows how far it is on the same line
            rate.advance(number)
            progress.update(task, advance=number, text=rate.text(whole))

        try:
            yield advance
        finally:
            progress.stop()


def _lines(title: str, total: Total, unit: str) -> Callable[[int], None]:
    """The same for a log: a line at most every LINE_SECONDS."""
    rate, last = Rate(unit), time.monotonic()

    def advance(number: int) -> None:
        nonlocal last, total
        rate.advance(number)
        if time.monotonic() - last >= LINE_SECONDS:
            last = time.monotonic()
            total = total() if callable(total) else total
            print(f"{title}: {rate.text(total)}", file=sys.stderr, flush=True)

    return advance
