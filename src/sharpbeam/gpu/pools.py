"""Keys and values of a decoding run on the device: one pool of cells for its rows, one for its sources."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sharpbeam.types import Ids

FIRST = 256  # cells to begin with
POSITIONS = 64  # cells of a sequence to begin with
NONE = -1  # the parent of a first cell


class Cells:
    """A tree of cells, kept on the host: each holds what one token adds to the cell of the state before it.

    The handle of a state is the number of its last cell. A cell is in use while its state is kept, or one after it is
    in use. Cell 0 is never given: rows that only fill a batch up use it.
    """

    def __init__(self, size: int) -> None:
        self.length = np.zeros(size, np.int32)  # tokens up to each cell
        self._parent = np.full(size, NONE, np.int32)
        self._users = np.zeros(size, np.int32)  # cells after it, and 1 while its state is kept
        self._live = np.zeros(size, np.bool_)
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
        self.length, self._users = np.pad(self.length, (0, more)), np.pad(self._users, (0, more))
        self._parent = np.pad(self._parent, (0, more), constant_values=NONE)
        self._live = np.pad(self._live, (0, more))

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
        dropped = self._live.copy()
        dropped[state] = False
        ends = np.flatnonzero(dropped).astype(np.int32)
        self._live[ends] = False
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
        valid[valid] = self._live[state[valid]]
        if not valid.all():
            i = int(np.argmin(valid))
            raise ValueError(f"state {i} is {state[i]}; it must be a handle from admit or step that retain has kept.")

    def clear(self) -> None:
        """Free everything."""
        self.retain(np.empty(0, np.int32))

    def _take(self, count: int) -> Ids:
        cells = np.array([self._free.pop() for _ in range(count)], np.int32)
        self._users[cells], self._live[cells] = 1, True
        return cells


class _Pool:
    """Values of cells, and which cells make up each line."""

    def __init__(self, layers: int, width: int, lines: int, device: torch.device, dtype: torch.dtype) -> None:
        self.values = torch.zeros((layers, FIRST, width), dtype=dtype, device=device)  # [layers, cells, width]
        self.table = torch.zeros((lines, POSITIONS), dtype=torch.int32, device=device)  # [lines, positions]

    def _widen(self, longest: int) -> bool:
        """Have lines of `longest` cells; returns whether the table is a new one."""
        before = self.table
        while self.table.shape[1] < longest:
            self.table = _doubled(self.table, 1)
        return self.table is not before


class RowPool(_Pool):
    """Values that each token of a row adds, by cell: line c has the cells of the state whose last one is c.

    A state that is continued copies its line of the table, a few numbers, and none of the values.
    """

    def __init__(self, layers: int, width: int, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(layers, width, FIRST, device, dtype)
        self.cells = Cells(FIRST)

    def reserve(self, count: int, longest: int) -> bool:
        """Have `count` free cells and lines of `longest` cells; returns whether the tensors are new ones."""
        changed = self._widen(longest)
        while not self.cells.has_free(count):
            self.cells.grow(2 * len(self.cells))
            self.values, self.table, changed = _doubled(self.values, 1), _doubled(self.table, 0), True
        return changed


class SourcePool(_Pool):
    """Keys and values of the sources of the requests in flight, one cell for each position."""

    def __init__(self, layers: int, width: int, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(layers, width, 8, device, dtype)
        self.length = np.ones(8, np.int32)  # positions of each request's source, by line of the table
        self.line: dict[int, int] = {}  # of each request by its index; line 0 is for rows that only fill a batch up
        self._cells: dict[int, list[int]] = {}
        self._free, self._free_lines = list(range(FIRST - 1, 0, -1)), list(range(7, 0, -1))

    def reserve(self, lengths: list[int]) -> bool:
        """Reserve cells for sources of these lengths; returns whether the tensors are new ones."""
        changed = self._widen(max(lengths))
        while len(self._free) < sum(lengths):
            size = self.values.shape[1]
            self._free = [*range(2 * size - 1, size - 1, -1), *self._free]
            self.values, changed = _doubled(self.values, 1), True
        while len(self._free_lines) < len(lengths):
            size = len(self.table)
            self._free_lines = [*range(2 * size - 1, size - 1, -1), *self._free_lines]
            self.table, changed = _doubled(self.table, 0), True
            self.length = np.pad(self.length, (0, size), constant_values=1)
        return changed

    def put(self, requests: list[int], values: Tensor, lengths: list[int]) -> None:
        """Keep the values [layers, B, S, width] of the first positions of each request."""
        blocks = [[self._free.pop() for _ in range(size)] for size in lengths]
        lines = [self._free_lines.pop() for _ in requests]
        names = np.zeros((len(requests), self.table.shape[1]), np.int32)
        for row, (request, cells, line) in enumerate(zip(requests, blocks, lines, strict=True)):
            self.line[request], self._cells[request] = line, cells
            names[row, : len(cells)], self.length[line] = cells, len(cells)
        device = self.values.device
        self.table[torch.tensor(lines, device=device)] = torch.from_numpy(names).to(device)
        there = torch.arange(values.shape[2])[None] < torch.tensor(lengths)[:, None]
        every = torch.tensor([cell for cells in blocks for cell in cells], device=device)
        self.values[:, every] = values[:, there.to(device)].to(self.values.dtype)

    def lines(self, request: Ids) -> Ids:
        """The line [R] of each row's request."""
        return np.array([self.line[index] for index in request.tolist()], np.int32)

    def drop(self, request: int) -> None:
        """Forget a request."""
        self._free += self._cells.pop(request)
        self._free_lines.append(self.line.pop(request))

    def clear(self) -> None:
        """Forget all requests."""
        for request in list(self.line):
            self.drop(request)


def _doubled(tensor: Tensor, dim: int) -> Tensor:
    return torch.cat([tensor, torch.zeros_like(tensor)], dim)
