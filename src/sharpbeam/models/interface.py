"""The interface of models. A model ends at the hidden vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from sharpbeam._core import ModelRun
from sharpbeam.types import Floats, Ids, Request


class Decoding(Protocol):
    """The caches of one decoding run. A handle names a recurrent state; it lives until `retain` leaves it out.

    Inherit from it to get the defaults of `native` and `reason`.
    """

    native: ModelRun | None = None
    """The same run in the compiled core, for searches that take whole steps there; None if there is none."""
    reason: str = "the model is computed in Python"
    """Why `native` is None, for `--stats`; empty if it is not."""

    def admit(self, requests: Sequence[Request]) -> Ids:
        """Encode `requests` and return the handle of each one's initial state, [B] int32, in their order.

        The source of a language model's request is its prompt, and its state is the one after the prompt. Feeding bos,
        as a search does first, must not change that state.
        """

    def step(self, request: Ids, state: Ids, token: Ids) -> tuple[Floats, Ids]:
        """Feed one token to each of R rows: request indices, state handles and tokens, each [R] int32.

        Returns hidden [R, D] float32 and the handle of each row's new state [R] int32. The states that were
        read stay valid, so several rows may continue one.
        """

    def retain(self, state: Ids) -> None:
        """Free every state but the named ones (repeats allowed)."""

    def evict(self, request: Ids) -> None:
        """Forget the sources of the requests named by index, [n] int32."""


@runtime_checkable
class Attending(Decoding, Protocol):
    """A decoding run of a model that looks at the source by attention, one distribution over it for each step."""

    def attend(self, request: Ids, state: Ids, token: Ids) -> tuple[Floats, Ids]:
        """The same as `step`, with attention weights instead of hidden vectors.

        Returns weights [R, S] float32, S the length of the longest source of the rows, and the handles [R] int32. A
        row's weights are 0 or more, sum to 1 over its own source, and are 0 after its end.
        """


class Model(Protocol):
    """A loaded model: weights that any number of decoding runs share."""

    bos_id: int
    eos_id: int

    def output(self) -> tuple[Floats, Floats]:
        """Output matrix [V, D] and bias [V], from which an output layer is built."""

    def open(self) -> Decoding:
        """Fresh caches for one decoding run."""
