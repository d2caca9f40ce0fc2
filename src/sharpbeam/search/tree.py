"""The tokens of all hypotheses of a run, kept as a tree so that a step copies no prefix."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from sharpbeam.types import Candidates, Floats, Hypothesis, Ids, Request, Rows, Scores

ROOT = -1  # parent of the first token of every hypothesis
NOTHING = -1  # stands in the place of a token where there is none
_NOBODY = -1  # owner of a node that was never given away


def first_rows(requests: Sequence[Request], state: Ids, bos_id: int, each: int = 1) -> Rows:
    """`each` rows at bos for every one of `requests` [B], side by side; their first states are `state` [B]."""
    request = np.array([request.index for request in requests], np.int32).repeat(each)
    token, node, length = np.array([[bos_id], [ROOT], [0]], np.int32).repeat(len(request), axis=1)
    return Rows(request, state.repeat(each), token, node, length, score=np.zeros(len(request), np.float64))


class TokenTree:
    """Arrays of parent, token and log probability; a node is its place in them, a hypothesis its last node.

    Every node belongs to a request. When the room is used up, the nodes of requests that are done are given away
    again, so a stream of requests that never ends needs no more room than those in flight at one time.
    """

    def __init__(self, in_flight: Collection[int], eos_id: int) -> None:
        """`in_flight` is a live view of the requests whose nodes are needed."""
        self._in_flight, self._eos_id = in_flight, eos_id
        self._parent = self._token = self._owner = np.empty(0, np.int32)
        self._log_prob = np.empty(0, np.float32)
        self._free: Ids | None = None  # the nodes to give away, from `_next` on; None = all in their order
        self._next = 0

    @property
    def room(self) -> int:
        """How many nodes there is memory for."""
        return len(self._token)

    def add(self, parent: Ids, token: Ids, log_prob: Floats, owner: Ids) -> Ids:
        """Add one node for each entry, [n] each, and return the nodes. `owner` are the requests they belong to."""
        if self._next + len(token) > (self.room if self._free is None else len(self._free)):
            self._make_room(len(token))
        begin, end = self._next, self._next + len(token)
        self._next = end
        where: slice | Ids
        if self._free is None:
            where, nodes = slice(begin, end), np.arange(begin, end, dtype=np.int32)
        else:
            where = nodes = self._free[begin:end]
        self._parent[where] = parent
        self._token[where] = token
        self._log_prob[where] = log_prob
        self._owner[where] = owner
        return nodes

    def grow(self, rows: Rows, found: Candidates, cell: NDArray[np.intp], score: Scores) -> Rows:
        """The candidates at `cell` [n], places in the flat [R, k], with scores [n], as rows of the next step."""
        parent = cell // found.token.shape[1]
        token = found.token.ravel()[cell]
        request = rows.request[parent]
        return Rows(
            request=request,
            state=rows.state[parent],
            token=token,
            node=self.add(rows.node[parent], token, found.log_prob.ravel()[cell], request),
            length=rows.length[parent] + np.int32(1),
            score=score,
        )

    def hypothesis(self, request: int, node: int, score: float) -> Hypothesis:
        """The finished hypothesis of `request` that ends in `node`."""
        tokens, log_probs = self.path(node)
        if tokens and tokens[-1] == self._eos_id:
            tokens.pop()
        log_prob = reduce(add, log_probs, 0.0)  # in the order of the search, hence with its bits
        return Hypothesis(request, tuple(tokens), tuple(log_probs), log_prob, score)

    def path(self, node: int) -> tuple[list[int], list[float]]:
        """Tokens and log probabilities from the root to `node`."""
        nodes = []
        while node != ROOT:
            nodes.append(node)
            node = int(self._parent[node])
        nodes.reverse()
        tokens: list[int] = self._token[nodes].tolist()
        log_probs: list[float] = self._log_prob[nodes].tolist()
        return tokens, log_probs

    def history(self, node: Ids) -> Ids:
        """The tokens of hypotheses, last one first, [n, T]; behind the first one of a shorter one stands NOTHING."""
        columns: list[Ids] = []
        inside = node != ROOT
        while inside.any():
            columns.append(np.where(inside, self._token[node], np.int32(NOTHING)))
            node = np.where(inside, self._parent[node], np.int32(ROOT))
            inside = node != ROOT
        return np.stack(columns, axis=1) if columns else np.empty((len(node), 0), np.int32)

    def clear(self) -> None:
        """Forget every node; the room is kept for the next batch."""
        self._free, self._next = None, 0
        self._owner.fill(_NOBODY)

    def _make_room(self, need: int) -> None:
        """Collect the nodes of requests that are done; grow where they are less than half, so that this is rare."""
        free: NDArray[np.bool_] = ~np.isin(self._owner, list(self._in_flight))
        if free.sum() < max(need, self.room // 2):
            more = max(need, self.room, 1024)
            self._parent, self._token = (np.append(a, np.empty(more, np.int32)) for a in (self._parent, self._token))
            self._log_prob = np.append(self._log_prob, np.empty(more, np.float32))
            self._owner = np.append(self._owner, np.full(more, _NOBODY, np.int32))
            free = np.append(free, np.ones(more, np.bool_))
        self._free, self._next = free.nonzero()[0].astype(np.int32), 0
