"""Progress of a fit for people: a bar with the time left on a terminal, and result lines on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sharpbeam.jobs.progress import Bar

if TYPE_CHECKING:
    from sharpbeam.fit.progress import FitProgress


@contextmanager
def shown_progress() -> Iterator[Callable[[FitProgress], None]]:
    """A listener for the fits; what it shows is cleared at the end of the block."""
    bar, stage, done = Bar("", None, 0, False), "", 0

    def listen(report: FitProgress) -> None:
        nonlocal bar, stage, done
        if report.note:
            with bar.aside():
                print(report.note, file=sys.stderr, flush=True)
        if report.stage != stage:
            bar.stop()
            bar = Bar(report.stage, report.total, report.done, bool(report.stage), report.unit)
            stage, done = report.stage, report.done
        if report.done != done:
            bar(report.done - done)
            done = report.done

    try:
        yield listen
    finally:
        bar.stop()
