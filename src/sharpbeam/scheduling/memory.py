"""How much of a memory budget is used by what is in flight: rows, and positions of sources."""

from __future__ import annotations

import math

from sharpbeam.types import Footprint

# Of one candidate, in the arrays of a search's step: token and log probability, and float64 sums and places of them
# while they are ranked. A row has at most 2K candidates.
_CANDIDATE = 8 + 4 * 8


class Memory:
    """The share of one worker. It is an estimate: weights and the interpreter are not in it."""

    def __init__(self, limit: int | None, footprint: Footprint, most_rows: int) -> None:
        """At most `limit` bytes; None = as much as there is. A request has at most `most_rows` rows."""
        self._limit = math.inf if limit is None else limit
        self._row = footprint.row + 2 * most_rows * _CANDIDATE
        self._position = footprint.position

    def fits(self, positions: int, rows: float) -> bool:
        """Whether there is room for sources of so many positions in all, and for so many rows."""
        return positions * self._position + rows * self._row <= self._limit

    def rows(self, positions: int) -> float:
        """How many rows there is room for beside sources of so many positions in all; may be below 0."""
        return (self._limit - positions * self._position) / self._row
