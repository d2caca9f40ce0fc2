"""States by handle, and checks: the common part of the PyTorch models."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpbeam.types import Ids, Request


class TorchSlots:
    """States of one decoding run, of any kind; a handle is the number of a state's slot."""

    def __init__(self) -> None:
        self._states: list[Any] = []
        self._used = np.zeros(0, dtype=np.bool_)  # [slots]

    def put(self, states: Sequence[Any]) -> Ids:
        """Put the states of n rows into free slots, the lowest first; returns the slots [n]."""
        missing = len(states) - int((~self._used).sum())
        if missing > 0:
            self._states += [None] * missing
            self._used = np.concatenate([self._used, np.zeros(missing, dtype=np.bool_)])
        slots: NDArray[np.intp] = np.flatnonzero(~self._used)[: len(states)]
        for slot, state in zip(slots.tolist(), states, strict=True):
            self._states[slot] = state
        self._used[slots] = True
        return slots.astype(np.int32)

    def get(self, state: Ids) -> list[Any]:
        """The states of handles [n] that `check` has passed."""
        return [self._states[slot] for slot in state.tolist()]

    def retain(self, state: Ids) -> None:
        """Free every state but the named ones (repeats allowed)."""
        self.check(state)
        self._used[:] = False
        self._used[state] = True
        for slot in np.flatnonzero(~self._used).tolist():
            self._states[slot] = None

    def check(self, state: Ids) -> None:
        """Raise ValueError unless every handle is in use."""
        in_range = (state >= 0) & (state < len(self._used))
        in_range[in_range] = self._used[state[in_range]]
        if not in_range.all():
            i = int(np.argmin(in_range))
            raise ValueError(f"state {i} is {state[i]}; it must be a handle from admit or step that retain has kept.")


def check_admit(requests: Sequence[Request], admitted: Container[int], vocab_size: int) -> None:
    """Raise ValueError for a request that stands twice or is `admitted`, and for an empty or unknown source."""
    seen = set()
    for request in requests:
        if request.index in admitted or request.index in seen:
            raise ValueError(f"request {request.index} is admitted already; evict it first.")
        if len(request.source) < 1:
            raise ValueError(f"request {request.index} has a source of 0 tokens; it must have 1 or more.")
        check_tokens("source token", request.source, vocab_size)
        seen.add(request.index)


def check_requests(request: Ids, admitted: Container[int]) -> None:
    """Raise ValueError unless every request index is among those `admitted`."""
    for index in request.tolist():
        if index not in admitted:
            raise ValueError(f"request is {index}; it must be one that was admitted and not yet evicted.")


def check_rows(request: Ids, state: Ids, token: Ids, vocab_size: int) -> None:
    """Raise ValueError unless the three have one length and the tokens lie in the vocabulary."""
    if not len(request) == len(state) == len(token):
        raise ValueError(f"request, state and token have {len(request)}, {len(state)} and {len(token)} rows.")
    check_tokens("token", token, vocab_size)


def check_tokens(name: str, token: Ids, vocab_size: int) -> None:
    """Raise ValueError unless every token lies in the vocabulary."""
    bad = (token < 0) | (token >= vocab_size)
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(f"{name} {i} is {token[i]}; it must be between 0 and {vocab_size - 1}.")
