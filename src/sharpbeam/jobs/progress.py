"""The progress bar: on stderr, and only when that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Bar:
    """A bar of sentences, or of another unit. Calling it with the number that were just done moves it on."""

    def __init__(self, title: str, total: int | None, done: int, shown: bool, unit: str = "sentences") -> None:
        self._unit = unit
        self._progress: Progress | None = None
        if shown and sys.stderr.isatty():
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
            )
            self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._progress.add_task(title, total=total, completed=done, rate="")
            self._progress.start()

    def __call__(self, number: int, /) -> None:
        """StepResult the bar on."""
        if self._progress:
            speed = self._progress.tasks[0].speed
            rate = f"{speed:.0f} {self._unit}/s" if speed else ""
            self._progress.update(self._task, advance=number, rate=rate)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the bar off the screen while something is printed, perhaps on the same terminal."""
        if self._progress:
            self._progress.stop()
        yield
        if self._progress:
            self._progress.start()

    def stop(self) -> None:
        """Take the bar away."""
        if self._progress:
            self._progress.stop()


@contextmanager
def progress_bar(
    title: str, total: int | None, done: int = 0, shown: bool = True, unit: str = "sentences"
) -> Iterator[Bar]:
    """A bar while the block runs; `total` is None where the number of lines is not known."""
    bar = Bar(title, total, done, shown, unit)
    try:
        yield bar
    finally:
        bar.stop()
