"""The progress bar: on stderr, and only when that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Advance(Protocol):
    """What moves a bar: called with the number of sentences that were just done."""

    def __call__(self, sentences: int, /) -> None:
        """Move the bar on."""


@contextmanager
def progress_bar(title: str, total: int | None, done: int = 0, shown: bool = True) -> Iterator[Advance]:
    """A bar of sentences while the block runs; `total` is None where the number of lines is not known."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    console, hidden = Console(stderr=True), not (shown and sys.stderr.isatty())
    with Progress(*columns, console=console, disable=hidden, transient=True, redirect_stdout=False) as bar:
        task = bar.add_task(title, total=total, completed=done, rate="")

        def advance(sentences: int, /) -> None:
            speed = bar.tasks[task].speed
            bar.update(task, advance=sentences, rate=f"{speed:.0f} sentences/s" if speed else "")

        yield advance
