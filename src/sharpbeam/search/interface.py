"""The interfaces of a search, of the forward pass that it asks for, and of an observer such as `sharpbeam trace`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from sharpbeam._core import LayerRun, ModelRun
from sharpbeam.search.work import Work
from sharpbeam.types import Floats, Hypothesis, Ids, Request, Rows, StepResult, TopK


class Forward(Protocol):
    """The forward pass of one decoding run: the model and the output layer."""

    native: tuple[ModelRun, LayerRun] | None
    """Both of them in the compiled core, for searches that take whole steps; None if one of them is missing."""
    layer: LayerRun | None
    """The output layer in the core, also asked if only the model is not native and normalizers are estimates."""
    reason: str
    """Why `native` is None, for `--stats`; empty if it is not."""
    whole: bool
    """Whether all rows of the run take part in every step: then a search may take several steps in one call, up to the
    first that ends a request, and has the model free states in between."""

    def step(self, request: Ids, state: Ids, token: Ids) -> tuple[Floats, Ids]:
        """Feed one token to each row, as `models.interface.Decoding.step`: hidden [R, D] and new states [R]."""

    def topk(self, hidden: Floats, k: int, request: Ids) -> TopK:
        """The k best tokens of each hidden vector, as `output_layers.interface.OutputLayerRun.topk`."""

    def log_prob(self, hidden: Floats, token: Ids, request: Ids) -> Floats:
        """Log probability [R] of one token [R] for each hidden vector [R, D], each of a request [R]."""


class Search(Protocol):
    """Decides which hypotheses live on. One search object serves one decoding run."""

    work: Work
    """Counts of what the search did; `step` updates them."""

    def begin(self, requests: Sequence[Request], state: Ids) -> Rows:
        """First rows of new requests with the handles of their initial states [B], to be put after the live ones."""

    def step(self, rows: Rows, forward: Forward) -> StepResult:
        """Take one step with every request in `rows`, whose rows are next to each other, in the order the search gave.

        Beam search runs every row once. A search may run fewer, or run some more than once from the same state, and
        ask for candidates of some hidden vectors only, or take several steps (`Forward.whole`). The states of the rows
        it returns must be handles that `forward.step` has given in this step.
        """

    def decode(self, request: Request, forward: Forward) -> list[Hypothesis] | None:
        """Take all steps of a request that is alone and has not begun, and return its hypotheses, best first.

        It enters and leaves the runs of `forward` too. None if the search needs single steps; may be left out.
        """
        return None

    def cancel(self, request: int) -> None:
        """Forget a request in flight without an answer; the caller removes its rows before the next step.

        Other requests are answered as if it had never been there. Raises KeyError if it is not in flight.
        """

    def peek(self, request: int, node: int) -> tuple[list[Hypothesis], list[int]]:
        """Finished hypotheses of a request in flight, best first, and the tokens of its row that ends in `node`.

        Raises KeyError if it is not in flight.
        """


Outcome = Literal["lives", "finished", "width", "threshold", "banned"]
"""The outcome of a candidate: a row of the next step; a finished hypothesis; no place on the beam; below the threshold
of a beam of variable width; not allowed at all."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
"""In the order of the core (csrc/search/trace.h)."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the best candidates of a request in one step, and what became of it."""

    row: int  # which of the request's rows it continues
    token: int
    log_prob: float  # what the model says of the token
    score: float  # sum of the hypothesis that it makes
    outcome: Outcome


class Observer(Protocol):
    """The events of a search while it runs. Without an observer they cost nothing."""

    def merged(self, request: int, groups: Sequence[int]) -> None:
        """Cube pruning: rows of one group share their candidates; `groups` has a number for each row of the request."""

    def advanced(self, request: int, choices: Sequence[Choice]) -> None:
        """One step of a request; those that live are its rows in the next step, in this order."""

    def stopped(self, request: int, why: str) -> None:
        """A request is done."""
