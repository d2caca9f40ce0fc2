"""The engine's warnings while a job runs: they count the texts of a chunk, users count lines."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def engine_warnings(first_line: Callable[[], int] | None) -> Iterator[None]:
    """Add to what is logged to "sharpbeam" which line text 0 is, or drop it with None; leave other loggers alone."""
    logger = logging.getLogger("sharpbeam")

    def count(record: logging.LogRecord) -> bool:
        if first_line is not None:
            record.msg, record.args = f"{record.getMessage()}; text 0 is line {first_line()}", ()
        return first_line is not None

    logger.addFilter(count)
    try:
        yield
    finally:
        logger.removeFilter(count)
