"""The door of the schedule room: what the loop asks of any schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from quickbeam.types import Move, Request, Rows


class Schedule(Protocol):
    """Decides which requests are in flight. One schedule object serves one decoding run."""

    @property
    def busy(self) -> bool:
        """Whether there are rows in flight or requests waiting."""

    def refill(self) -> Sequence[Request]:
        """The requests that enter now; often none."""

    def apply(self, move: Move) -> Rows:
        """Take note of a step; returns the rows of the next one."""
