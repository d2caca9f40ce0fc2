"""Reports of a running fit, to the callback that a caller gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class FitProgress:
    """One report: how far a stage is, and perhaps a line worth keeping."""

    stage: str  # such as "collecting"; empty between stages
    done: int  # of `total`
    total: int | None  # None: not known beforehand
    unit: str  # of both, such as "vectors"
    note: str = ""  # a result, such as the figures of one setting


Listener = Callable[[FitProgress], None]


class Reporter:
    """Turns the steps of a fit into calls of a listener; without one it does nothing."""

    def __init__(self, listener: Listener | None = None) -> None:
        self._listener = listener
        self._stage, self._done, self._unit = "", 0, ""
        self._total: int | None = None

    def note(self, text: str) -> None:
        """Report a line worth keeping."""
        self._report(text)

    @contextmanager
    def stage(self, name: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
        """Open a stage of `total` units; yields a function to call with the number of units just done.

        Units done beyond `total` are not counted.
        """
        self._stage, self._done, self._total, self._unit = name, 0, total, unit
        self._report()
        try:
            yield self._advance
        finally:
            self._stage, self._done, self._total, self._unit = "", 0, None, ""
            self._report()

    def _advance(self, number: int) -> None:
        done = self._done + number
        self._done = done if self._total is None else min(done, self._total)
        self._report()

    def _report(self, note: str = "") -> None:
        if self._listener is not None:
            self._listener(FitProgress(self._stage, self._done, self._total, self._unit, note))
