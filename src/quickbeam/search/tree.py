"""The tokens of all hypotheses of a run, kept as a tree so that a step copies no prefix."""

from __future__ import annotations

import numpy as np

from quickbeam.types import Floats, Ids

ROOT = -1  # parent of the first token of every hypothesis


class TokenTree:
    """Growing arrays of parent, token and log probability; a node is its place in them, a hypothesis its last node."""

    def __init__(self) -> None:
        self._size = 0
        self._parent = np.empty(1024, np.int32)
        self._token = np.empty(1024, np.int32)
        self._log_prob = np.empty(1024, np.float32)

    def __len__(self) -> int:
        return self._size

    def add(self, parent: Ids, token: Ids, log_prob: Floats) -> Ids:
        """Add one node for each entry, [n] each, and return the nodes."""
        begin, end = self._size, self._size + len(token)
        if end > len(self._token):
            self._grow(end)
        self._parent[begin:end] = parent
        self._token[begin:end] = token
        self._log_prob[begin:end] = log_prob
        self._size = end
        return np.arange(begin, end, dtype=np.int32)

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

    def clear(self) -> None:
        """Forget every node; the room is kept for the next batch."""
        self._size = 0

    def _grow(self, need: int) -> None:
        room = max(need, 2 * len(self._token))
        for name in ("_parent", "_token", "_log_prob"):
            old = getattr(self, name)
            new = np.empty(room, old.dtype)
            new[: self._size] = old[: self._size]
            setattr(self, name, new)
