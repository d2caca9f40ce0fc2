"""The share of a memory budget that requests in flight use: rows and source positions."""

from __future__ import annotations

import math

from sharpbeam.types import Footprint

# Bytes of one candidate in the arrays of a search step: token, log probability, and float64 sums and indices while they
# are ranked. A row has at most 2K candidates.
_CANDIDATE = 8 + 4 * 8


class Usage:
    """Memory that all schedules of one worker use together."""

    size = 0.0  # bytes


class Memory:
    """Memory of one worker for the requests of one schedule: an estimate, without weights and interpreter."""

    def __init__(self, limit: int | None, footprint: Footprint, most_rows: int, shared: Usage | None = None) -> None:
        """At most `limit` bytes (None = no limit), together with all others of the same `shared`.

        A request has at most `most_rows` rows.
        """
        self._limit = math.inf if limit is None else limit
        self._row = footprint.row + 2 * most_rows * _CANDIDATE
        self._position = footprint.position
        self.most_rows = most_rows
        self._shared = shared or Usage()
        self._used = 0.0

    def use(self, positions: int, rows: float) -> None:
        """Record current use: source positions and rows in flight."""
        used = positions * self._position + rows * self._row
        self._shared.size += used - self._used
        self._used = used

    def fits(self, positions: int, rows: float) -> bool:
        """Whether there is memory for `positions` source positions and `rows` rows."""
        return positions * self._position + rows * self._row <= self._free

    def rows(self, positions: int) -> float:
        """Count of rows that fit next to `positions` source positions; may be below 0."""
        return (self._free - positions * self._position) / self._row

    @property
    def _free(self) -> float:
        return self._limit - (self._shared.size - self._used)
