"""The door of the search room: what the loop asks of any search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from quickbeam.types import Ids, Move, Rows, TopK


class Search(Protocol):
    """Decides which hypotheses live on. One search object serves one decoding run."""

    candidates: int  # k: how many candidates of each row `advance` wants

    def begin(self, request: Sequence[int], state: Ids) -> Rows:
        """First rows of new requests (their indices and initial state handles [B]), to be put after the live ones."""

    def plan(self, rows: Rows) -> Rows:
        """The rows that the model has to run in this step."""

    def advance(self, rows: Rows, top: TopK) -> Move:
        """Take one step: `top` holds the candidates of each row, `rows.state` the handles that the step returned.

        The rows of a request must stand side by side, in the order in which the search gave them.
        """
