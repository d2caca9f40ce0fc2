"""The best candidates of each request, of all its rows together."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sharpbeam.types import Scores

Index = NDArray[np.intp]


def rank(total: Scores, first: Index, keep: int) -> tuple[Index, Scores]:
    """The C = `keep` best of the scores [R, k] of each request, best first; its rows begin at `first` [B].

    Returns cells [B, C], which are places in the flat [R, k], and their scores [B, C]. Equal scores stand in the order
    of their cells. A request with fewer than C candidates has cells of others at its end, with the score -inf.
    """
    grid = _side_by_side(total, first)  # [B, n k]
    order = (-grid).argsort(axis=1, kind="stable")[:, :keep]
    score = grid.ravel()[order + (np.arange(len(first)) * grid.shape[1])[:, None]]
    return order + (first * total.shape[1])[:, None], score


def _side_by_side(total: Scores, first: Index) -> Scores:
    """[R, k] -> [B, n k]: the candidates of a request's rows in one line, padded with -inf; n = most rows of one."""
    rows, k = total.shape
    batch = len(first)
    if batch == 1:
        return total.reshape(1, -1)
    size = np.append(first[1:], rows) - first  # [B] rows of each request
    most = int(size.max())
    if batch * most == rows:
        return total.reshape(batch, -1)
    grid = np.full((batch, most, k), -math.inf)
    slot = np.arange(batch).repeat(size)  # [R]
    grid[slot, np.arange(rows) - first[slot]] = total
    return grid.reshape(batch, -1)
