"""The door of the schedule room: what the loop asks of any schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sharpbeam.types import Request, Rows, StepResult


class Schedule(Protocol):
    """Decides which requests are in flight. One schedule object serves one decoding run."""

    whole: bool
    """Whether all live rows run in every step, and nobody enters before a request is done."""

    @property
    def busy(self) -> bool:
        """Whether there are rows in flight or requests waiting."""

    def refill(self) -> Sequence[Request]:
        """The requests that enter now; often none."""

    def select(self, rows: Rows) -> Rows:
        """Which of all live rows run in this step, at least one; all rows of a request or none of them."""

    def apply(self, move: StepResult) -> Rows:
        """Take note of a step; returns all live rows: those that waited, and those that `move` leaves.

        Where it is `whole`, that may have been several steps.
        """
