"""A decoding run of the compiled core behind the models' door: the same for every architecture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quickbeam import _core
from quickbeam.types import Floats, Ids, Request


class NativeDecoding:
    """`models.door.Decoding` on the compiled core. A caller's mistake raises ValueError and changes nothing."""

    def __init__(self, run: _core.RecurrentDecoding | _core.LstmLmDecoding) -> None:
        self._run = run

    def admit(self, requests: Sequence[Request]) -> Ids:
        """Encode `requests` together; returns the handle of each one's initial state, [B] int32."""
        index = np.array([request.index for request in requests], dtype=np.int32)
        length = np.array([len(request.source) for request in requests], dtype=np.int32)
        token = np.concatenate([np.empty(0, np.int32), *(request.source for request in requests)])
        return self._run.admit(index, token, length)

    def step(self, request: Ids, state: Ids, token: Ids) -> tuple[Floats, Ids]:
        """Feed one token to each of R rows; returns hidden [R, D] float32 and the new states' handles [R] int32."""
        return self._run.step(request, state, token)

    def retain(self, state: Ids) -> None:
        """Free every state but the named ones (repeats allowed)."""
        self._run.retain(state)

    def evict(self, request: Ids) -> None:
        """Forget the sources of the requests named by index, [n] int32."""
        self._run.evict(request)
