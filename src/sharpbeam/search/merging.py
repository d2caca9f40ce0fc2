"""Which rows of a request are alike, so that one of them may speak for the others (CUBE section 3.4.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sharpbeam.search.ranking import Index
from sharpbeam.types import Floats, Ids, Rows


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows in groups: the paper's sub-cubes."""

    first: Index  # [G] the first row of each group, ascending
    group: Index  # [R] the group of each row

    @property
    def leader(self) -> Index:
        """The first row of each row's group, [R]."""
        return self.first[self.group]


def each_alone(rows: int) -> Groups:
    """Every row is a group of its own."""
    alone = np.arange(rows)
    return Groups(alone, alone)


def by_word(rows: Rows) -> Groups:
    """Rows of one request with the same last token: the paper's equivalence, known before the step."""
    key = rows.request.astype(np.int64) << 32 | rows.token
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    order = first.argsort()
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return Groups(first[order], rank[group])


def by_likeness(request: Ids, hidden: Floats, threshold: float) -> Groups:
    """Rows of one request [R] whose hidden vectors [R, D] have at least the cosine `threshold` with the group's first.

    In the order of the rows, each joins the earliest group that it is like enough, or begins one. Rows of a request
    stand side by side. What a row joins depends on the rows of its request only, to the last bit.
    """
    unit = hidden / np.maximum(np.sqrt((hidden * hidden).sum(axis=1, keepdims=True)), np.float32(1e-30))
    leader = np.arange(len(hidden))
    left = leader  # rows without a group
    while len(left):
        # In each round the first of each request begins a group, and those like it join.
        owner = request[left]
        begins = np.append(True, owner[1:] != owner[:-1])
        head = left[begins.nonzero()[0][begins.cumsum() - 1]]
        joins = (unit[left] * unit[head]).sum(axis=1) >= threshold
        joins |= left == head
        leader[left[joins]] = head[joins]
        left = left[~joins]
    first, group = np.unique(leader, return_inverse=True)
    return Groups(first, group)
