"""Progress on stderr: a bar if that is a terminal, else a line a minute, so that a job's log tells how far it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LINE_SECONDS = 60.0  # between lines where there is no terminal


@contextmanager
def progress_bar(
    title: str, total: int | Callable[[], int | None] | None, shown: bool = True, unit: str = "sentences"
) -> Iterator[Callable[[int], None]]:
    """Progress while the block runs; yields a function to call with the number of units that were just done.

    `total` is None where it is not known, or a function that is called where a bar needs it.
    """
    if not shown:
        yield lambda number: None
        return
    if not sys.stderr.isatty():
        yield _lines(title, None if callable(total) else total, unit)
        return
    from rich import progress as parts
    from rich.console import Console

    columns = (
        parts.TextColumn("{task.description}"),
        parts.BarColumn(),
        parts.MofNCompleteColumn(),
        parts.TextColumn("{task.fields[rate]}"),
        parts.TimeElapsedColumn(),
        parts.TimeRemainingColumn(),
    )
    with parts.Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=total() if callable(total) else total, rate="")

        def advance(number: int) -> None:
            speed = progress.tasks[0].speed
            progress.update(task, advance=number, rate=f"{speed:.0f} {unit}/s" if speed else "")

        yield advance


def _lines(title: str, total: int | None, unit: str) -> Callable[[int], None]:
    """The same for a log: a line at most every LINE_SECONDS."""
    done, began = 0, time.monotonic()
    said, of = began, "" if total is None else f" of {total:,}"

    def advance(number: int) -> None:
        nonlocal done, said
        done, now = done + number, time.monotonic()
        if now - said >= LINE_SECONDS:
            said = now
            rate = done / (now - began)
            print(f"{title}: {done:,}{of} {unit}, {rate:.1f} a second", file=sys.stderr, flush=True)

    return advance
