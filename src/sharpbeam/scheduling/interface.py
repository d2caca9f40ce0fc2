"""Interface of schedules, as the decoding loop uses them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sharpbeam.types import Request, Rows, StepResult


class Schedule(Protocol):
    """Decides which requests are in flight. One schedule object serves one decoding run."""

    @property
    def busy(self) -> bool:
        """Whether requests are in flight or waiting, and the run was not called off."""

    @property
    def whole(self) -> bool:
        """Whether all live rows run and no request can enter until one of them is done: then one native call may take
        several steps. Asked after `select`.
        """

    @property
    def final(self) -> bool:
        """Whether no more requests will come."""

    def refill(self) -> Sequence[Request]:
        """The requests that enter now; often none."""

    def select(self, rows: Rows) -> Rows:
        """Which of all live rows run in this step, at least one; all rows of a request or none of them."""

    def apply(self, result: StepResult) -> Rows:
        """Record the result of a step, or of several if `whole`.

        Returns all live rows: those that waited, then those of `result`.
        """

    def leave(self, request: int) -> None:
        """Record that a request in flight is done or dropped, between two steps; the caller removes its rows."""
