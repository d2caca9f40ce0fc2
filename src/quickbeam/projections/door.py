"""The door of the projections' room: hidden vectors to candidates."""

from __future__ import annotations

from typing import Protocol

from quickbeam.types import Floats, Ids, TopK


class Projection(Protocol):
    """An output layer, exact or screened. `hidden` is [R, D] float32; a row's answer depends on that row only."""

    vocab_size: int

    def topk(self, hidden: Floats, k: int) -> TopK:
        """The k best tokens of each row with their log probabilities; 1 <= k <= V, ties by lower id."""

    def log_prob(self, hidden: Floats, token: Ids) -> Floats:
        """Log probability of the given token of each row, [R] float32: for forced scores."""
