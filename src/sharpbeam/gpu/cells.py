"""Cells of the states of a decoding run: which are in use, and for how long. Bookkeeping on the host."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sharpbeam.types import Ids

NONE = -1  # the parent of a first cell


class Cells:
    """A tree of cells: each holds what one token adds to the cell of the state before it.

    The handle of a state is the number of its last cell. A cell is in use while its state is kept, or one after it is
    in use. Cell 0 is never given: rows that only fill a batch up use it.
    """

    def __init__(self, size: int) -> None:
        self.length = np.zeros(size, np.int32)
        """[cells] tokens up to each cell."""
        self._parent = np.full(size, NONE, np.int32)
        self._users = np.zeros(size, np.int32)  # cells after it, and 1 while its state is kept
        self._kept = np.zeros(size, np.bool_)
        self._free: list[int] = list(range(size - 1, 0, -1))

    def __len__(self) -> int:
        return len(self._parent)

    def has_free(self, count: int) -> bool:
        """Whether `count` cells are free."""
        return len(self._free) >= count

    def grow(self, size: int) -> None:
        """Have `size` cells, more than now."""
        more = size - len(self)
        self._free += range(size - 1, len(self) - 1, -1)
        self.length = np.concatenate([self.length, np.zeros(more, np.int32)])
        self._parent = np.concatenate([self._parent, np.full(more, NONE, np.int32)])
        self._users = np.concatenate([self._users, np.zeros(more, np.int32)])
        self._kept = np.concatenate([self._kept, np.zeros(more, np.bool_)])

    def begin(self, count: int) -> Ids:
        """Cells of `count` states without tokens."""
        cells = self._take(count)
        self._parent[cells], self.length[cells] = NONE, 0
        return cells

    def follow(self, state: Ids) -> Ids:
        """Cells of one token after each of `state` [R], of which several may be the same."""
        cells = self._take(len(state))
        self._parent[cells], self.length[cells] = state, self.length[state] + 1
        np.add.at(self._users, state, 1)
        return cells

    def retain(self, state: Ids) -> None:
        """Keep the named states, and free the cells that no kept one needs."""
        self.check(state)
        dropped = self._kept.copy()
        dropped[state] = False
        ends = np.flatnonzero(dropped).astype(np.int32)
        self._kept[ends] = False
        self._users[ends] -= 1
        ends = ends[self._users[ends] == 0]
        while len(ends):
            self._free += ends.tolist()
            before = self._parent[ends]
            before = before[before != NONE]
            np.subtract.at(self._users, before, 1)
            ends = np.unique(before[self._users[before] == 0])

    def check(self, state: Ids) -> None:
        """Raise ValueError unless every handle is of a state that is kept."""
        valid: NDArray[np.bool_] = (state > 0) & (state < len(self))
        valid[valid] = self._kept[state[valid]]
        if not valid.all():
            i = int(np.argmin(valid))
            raise ValueError(f"state {i} is {state[i]}; it must be a handle from admit or step that retain has kept.")

    def clear(self) -> None:
        """Free everything."""
        self.retain(np.empty(0, np.int32))

    def _take(self, count: int) -> Ids:
        cells = np.array([self._free.pop() for _ in range(count)], np.int32)
        self._users[cells], self._kept[cells] = 1, True
        return cells
