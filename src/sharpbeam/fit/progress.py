"""Reports of a running fit, to the callback that a caller gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class FitProgress:
    """One report: how far a stage is, and perhaps a line worth keeping."""

    stage: str  # such as "collecting"; empty between stages
    done: int  # of `total`
    total: int | None  # None: not known beforehand
    unit: str  # of both, such as "vectors"
    note: str = ""  # a result, such as the figures of one setting


BETWEEN = FitProgress("", 0, None, "")  # stages
Listener = Callable[[FitProgress], None]


class Reporter:
    """Turns the steps of a fit into calls of a listener; without one it does nothing."""

    def __init__(self, listener: Listener | None = None) -> None:
        self._listener = listener or (lambda report: None)
        self._last = BETWEEN

    def note(self, text: str) -> None:
        """Report a line worth keeping."""
        self._listener(replace(self._last, note=text))

    @contextmanager
    def stage(self, name: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
        """Open a stage of `total` units; yields a function to call with the number of units just done.

        Units done beyond `total` are not counted.
        """

        def advance(number: int) -> None:
            done = self._last.done + number
            self._report(replace(self._last, done=done if total is None else min(done, total)))

        self._report(FitProgress(name, 0, total, unit))
        try:
            yield advance
        finally:
            self._report(BETWEEN)

    def _report(self, report: FitProgress) -> None:
        self._last = report
        self._listener(report)
