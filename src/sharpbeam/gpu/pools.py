"""Keys and values of a decoding run on the device: one pool of cells for its rows, one for its sources."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sharpbeam.gpu.cells import Cells
from sharpbeam.types import Ids

FIRST = 256  # cells to begin with
POSITIONS = 64  # cells of a sequence to begin with


class RowPool:
    """Values that each token of a row adds, by cell, and the cells of each state in their order.

    A state that is continued copies its line of the table, a few numbers, and none of the values.
    """

    def __init__(self, layers: int, width: int, device: torch.device, dtype: torch.dtype) -> None:
        self.cells = Cells(FIRST)
        self.values = torch.zeros((layers, FIRST, width), dtype=dtype, device=device)
        """[layers, cells, width]"""
        self.table = torch.zeros((FIRST, POSITIONS), dtype=torch.int32, device=device)
        """[cells, positions] int32: line c has the cells of the state whose last one is c."""

    def reserve(self, count: int, longest: int) -> bool:
        """Have `count` free cells and lines of `longest` cells; returns whether the tensors are new ones."""
        changed = False
        while not self.cells.has_free(count):
            more = len(self.cells)
            self.cells.grow(2 * more)
            self.values = torch.cat([self.values, torch.zeros_like(self.values)], dim=1)
            self.table = torch.cat([self.table, torch.zeros_like(self.table)])
            changed = True
        while self.table.shape[1] < longest:
            self.table = torch.cat([self.table, torch.zeros_like(self.table)], dim=1)
            changed = True
        return changed


class SourcePool:
    """Keys and values of the sources of the requests in flight, one cell for each position."""

    def __init__(self, layers: int, width: int, device: torch.device, dtype: torch.dtype) -> None:
        self.values = torch.zeros((layers, FIRST, width), dtype=dtype, device=device)
        """[layers, cells, width]"""
        self.table = torch.zeros((8, POSITIONS), dtype=torch.int32, device=device)
        """[requests, positions] int32"""
        self.length = np.ones(8, np.int32)  # positions of each request's source, by line of the table
        self.line: dict[int, int] = {}
        """The line of each request by its index; line 0 is for rows that only fill a batch up."""
        self._cells: dict[int, list[int]] = {}
        self._free, self._free_lines = list(range(FIRST - 1, 0, -1)), list(range(7, 0, -1))

    def reserve(self, lengths: list[int]) -> bool:
        """Reserve cells for sources of these lengths; returns whether the tensors are new ones."""
        changed = False
        while len(self._free) < sum(lengths):
            size = self.values.shape[1]
            self._free = [*range(2 * size - 1, size - 1, -1), *self._free]
            self.values = torch.cat([self.values, torch.zeros_like(self.values)], dim=1)
            changed = True
        while len(self._free_lines) < len(lengths):
            size = len(self.table)
            self._free_lines = [*range(2 * size - 1, size - 1, -1), *self._free_lines]
            self.table = torch.cat([self.table, torch.zeros_like(self.table)])
            self.length = np.concatenate([self.length, np.ones(size, np.int32)])
            changed = True
        while self.table.shape[1] < max(lengths):
            self.table = torch.cat([self.table, torch.zeros_like(self.table)], dim=1)
            changed = True
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
