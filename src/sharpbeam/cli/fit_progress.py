"""Progress of a fit: a bar with the time left on a terminal, and result lines on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from sharpbeam.jobs.progress import progress_bar

if TYPE_CHECKING:
    from sharpbeam.fit.progress import FitProgress


@contextmanager
def shown_progress() -> Iterator[Callable[[FitProgress], None]]:
    """A listener for the fits; its bar is cleared at the end of the block."""
    with ExitStack() as shown:
        bar, stage, count = shown.enter_context(progress_bar("", None, False)), "", 0

        def listen(report: FitProgress) -> None:
            nonlocal bar, stage, count
            if report.note:
                print(report.note, file=sys.stderr, flush=True)  # above a bar
            if report.stage != stage:
                shown.close()
                bar = shown.enter_context(progress_bar(report.stage, report.total, bool(report.stage), report.unit))
                stage, count = report.stage, 0
            if report.done != count:
                bar(report.done - count)
                count = report.done

        yield listen
