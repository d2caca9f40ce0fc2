"""An observer of a search, such as the one of `sharpbeam trace`. Without one it costs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

Outcome = Literal["lives", "finished", "width", "threshold", "banned"]
"""The outcome of a candidate: a row of the next step; a finished hypothesis; no place on the beam; below the threshold
of a beam of variable width; not allowed at all."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
"""In the order of the core (csrc/search/trace.h)."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the best candidates of a request in one step, and what became of it."""

    row: int  # which of the request's rows it continues
    token: int
    log_prob: float  # what the model says of the token
    score: float  # sum of the hypothesis that it makes
    outcome: Outcome


class Observer(Protocol):
    """The events of a search while it runs."""

    def merged(self, request: int, groups: Sequence[int]) -> None:
        """Cube pruning: rows of one group share their candidates; `groups` has a number for each row of the request."""

    def advanced(self, request: int, choices: Sequence[Choice]) -> None:
        """One step of a request; those that live are its rows in the next step, in this order."""

    def stopped(self, request: int, why: str) -> None:
        """A request is done."""
