"""The interfaces of a search, and of the forward pass that it asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

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

    def cancel(self, request: int) -> None:
        """Forget a request in flight without an answer; the caller removes its rows before the next step.

        Other requests are answered as if it had never been there. Raises KeyError if it is not in flight.
        """

    def interrupt(self) -> None:
        """End a call of `step` that takes several steps after the current one, from any thread; may be left out."""

    def peek(self, request: int, node: int) -> tuple[list[Hypothesis], list[int]]:
        """Finished hypotheses of a request in flight, best first, and the tokens of its row that ends in `node`.

        Raises KeyError if it is not in flight.
        """
