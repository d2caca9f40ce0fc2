"""Several models that answer as one, by the model interface (SHARP-7, Devlin 2017, Table 2: E1 and E2).

The hidden vectors of the members stand side by side, and so do their output matrices, divided by the number of members:
the logits are then the mean of the members' logits, and whatever output layer is built from that matrix gives

    log p(w) = 1/M sum_m log p_m(w) - log Z,

the mean of the log probabilities made a distribution again, since the members' own normalizers cancel. The paper does
not name the quantity that it averages. So output layers, searches and schedules know no difference.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sharpbeam.models.interface import Attending, Decoding, Model
from sharpbeam.types import Floats, Ids, Request


class EnsembleDecoding(Decoding):
    """`models.interface.Decoding` of all members at once. A state has the handle that the first member gave it."""

    reason = "the members of an ensemble are joined in Python"

    def __init__(self, members: Sequence[Decoding]) -> None:
        self._first, *self._others = members
        self._handles = np.empty((len(self._others), 0), np.int32)  # of the other members, by handle of the first

    def admit(self, requests: Sequence[Request]) -> Ids:
        """Encode `requests` with every member; returns the handle of each one's initial state, [B] int32."""
        return self._name([member.admit(requests) for member in (self._first, *self._others)])

    def step(self, request: Ids, state: Ids, token: Ids) -> tuple[Floats, Ids]:
        """Feed one token to each of R rows; returns hidden [R, D], D the sum of the members', and handles [R] int32."""
        hidden, handles = self._advance("step", request, state, token)
        return np.concatenate(hidden, axis=1), handles

    def retain(self, state: Ids) -> None:
        """Free every state but the named ones (repeats allowed)."""
        self._first.retain(state)
        for member, own in zip(self._others, self._of(state), strict=True):
            member.retain(own)

    def evict(self, request: Ids) -> None:
        """Forget the sources of the requests named by index, [n] int32."""
        for member in (self._first, *self._others):
            member.evict(request)

    def _advance(self, method: str, request: Ids, state: Ids, token: Ids) -> tuple[list[Floats], Ids]:
        """The answers of each member's `method`, and the handles of the new states."""
        steps = [getattr(self._first, method)(request, state, token)]  # which checks the handles
        others = zip(self._others, self._of(state), strict=True)
        steps += [getattr(member, method)(request, own, token) for member, own in others]
        return [answer for answer, _ in steps], self._name([handle for _, handle in steps])

    def _of(self, state: Ids) -> Ids:
        """The handles of the other members, [M - 1, n]."""
        return self._handles.take(state, axis=1)

    def _name(self, handles: Sequence[Ids]) -> Ids:
        """Remember which states of the others go with the first one's; returns that one's handles."""
        first, *others = handles
        missing = int(first.max(initial=-1)) + 1 - self._handles.shape[1]
        if missing > 0:
            more = np.empty((len(others), max(missing, self._handles.shape[1])), np.int32)
            self._handles = np.concatenate([self._handles, more], axis=1)
        for ours, theirs in zip(self._handles, others, strict=True):
            ours[first] = theirs
        return first


class AttendingEnsemble(EnsembleDecoding, Attending):
    """`models.interface.Attending` of members that all have attention."""

    def attend(self, request: Ids, state: Ids, token: Ids) -> tuple[Floats, Ids]:
        """The same step for the mean of the members' attention weights, [R, S] float32."""
        weights, handles = self._advance("attend", request, state, token)
        mean: Floats = np.mean(weights, axis=0, dtype=np.float32)
        return mean, handles


class EnsembleModel:
    """`models.interface.Model` of members with the same vocabularies; their architectures and widths may differ."""

    def __init__(self, members: Sequence[Model]) -> None:
        """Put two members or more side by side."""
        self._members = tuple(members)
        self.bos_id, self.eos_id = members[0].bos_id, members[0].eos_id
        weights, biases = zip(*(member.output() for member in members), strict=True)
        weight = np.concatenate(weights, axis=1)
        weight *= np.float32(1 / len(weights))
        self._weight, self._bias = weight, np.asarray(np.mean(biases, axis=0, dtype=np.float32))

    def output(self) -> tuple[Floats, Floats]:
        """Output matrix [V, D], D the sum of the members', and bias [V]."""
        return self._weight, self._bias

    def open(self) -> EnsembleDecoding:
        """Fresh caches for one decoding run, to be used by one thread at a time."""
        runs = [member.open() for member in self._members]
        return (AttendingEnsemble if all(isinstance(run, Attending) for run in runs) else EnsembleDecoding)(runs)
