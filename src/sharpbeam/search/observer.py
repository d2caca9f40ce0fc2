"""How a search can be watched, as `sharpbeam trace` does. Without an observer it costs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Fate = Literal["lives", "finished", "width", "threshold", "banned"]
"""What became of a candidate: a row of the next step; a finished hypothesis; no place on the beam; below the threshold
of a beam of variable width; not allowed at all."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the best candidates of a request in one step, and what became of it."""

    row: int  # which of the request's rows it goes on from
    token: int
    log_prob: float  # what the model says of the token
    score: float  # sum of the hypothesis that it makes
    outcome: Fate


class Observer(Protocol):
    """What a search says while it runs."""

    def merged(self, request: int, groups: Sequence[int]) -> None:
        """Cube pruning: rows of one group share their candidates; `groups` has a number for each row of the request."""

    def advanced(self, request: int, choices: Sequence[Choice]) -> None:
        """One step of a request; those that live are its rows in the next step, in this order."""

    def stopped(self, request: int, why: str) -> None:
        """A request is done."""
