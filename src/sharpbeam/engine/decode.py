"""The loop: the only place that knows model, projection, search and schedule."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from sharpbeam.models.door import Decoding
from sharpbeam.projections.door import Projecting, Projection
from sharpbeam.schedule.door import Schedule
from sharpbeam.search.door import Search
from sharpbeam.types import Floats, Hypothesis, Rows

ALONE = nullcontext()


class Forward:
    """What a search sees of model and output layer: `search.door.Forward`."""

    def __init__(self, model: Decoding, layer: Projecting, whole: bool) -> None:
        self._model, self.whole = model, whole
        self.topk, self.log_prob = layer.topk, layer.log_prob
        model_run, layer_run = getattr(model, "core", None), getattr(layer, "core", None)
        self.core = None if model_run is None or layer_run is None else (model_run, layer_run)

    def step(self, rows: Rows) -> Floats:
        """Hidden vectors [R, D] of all rows, whose states become the new ones."""
        hidden, rows.state = self._model.step(rows.request, rows.state, rows.token)
        return hidden


def decode(
    model: Decoding,
    projection: Projection,
    search: Search,
    schedule: Schedule,
    team: AbstractContextManager[None] = ALONE,
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Run until the schedule is out of work; yields (request index, its hypotheses, best first) as they are done.

    `team` (`engine/teams.py`) is entered for each turn: its threads share the products of model and output layer.
    """
    layer, rows = projection.open(), Rows.empty()
    forward = Forward(model, layer, schedule.whole)
    while schedule.busy:
        with team:
            if entering := schedule.refill():
                state = model.admit(entering)
                layer.admit(entering)
                rows = rows.extend(search.begin(entering, state))
            rows = schedule.select(rows)
            move = search.turn(rows, forward)  # tokens -> hidden [R, D] -> candidates [R, k] -> surviving rows
        rows = schedule.apply(move)
        model.retain(rows.state)
        if move.finished:
            done = np.array(list(move.finished), np.int32)
            model.evict(done)
            layer.evict(done)
            yield from move.finished.items()
