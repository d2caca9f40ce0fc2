"""The engine's warnings while a verb runs: they count texts, people count lines, so the verbs say them themselves."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def engine_warnings(handler: logging.Handler) -> Iterator[None]:
    """Send the warnings of "sharpbeam" to `handler` alone, and leave the logger as it was."""
    logger = logging.getLogger("sharpbeam")
    propagate = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
