"""The loop: the only place that knows model, output layer, search and schedule."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from sharpbeam.models.interface import Decoding
from sharpbeam.output_layers.interface import OutputLayer, OutputLayerRun
from sharpbeam.scheduling.interface import Schedule
from sharpbeam.search.interface import Search
from sharpbeam.types import Floats, Hypothesis, Rows

ALONE = nullcontext()


class Forward:
    """What a search sees of model and output layer: `search.interface.Forward`."""

    def __init__(self, model: Decoding, layer: OutputLayerRun, whole: bool) -> None:
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
    output_layer: OutputLayer,
    search: Search,
    schedule: Schedule,
    team: AbstractContextManager[None] = ALONE,
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Run until the schedule is out of work; yields (request index, its hypotheses, best first) as they are done.

    `team` (`decoding/teams.py`) is entered for each turn: its threads share the products of model and output layer.
    """
    layer, rows = output_layer.open(), Rows.empty()
    forward = Forward(model, layer, schedule.whole)
    while schedule.busy:
        with team:
            if entering := schedule.refill():
                state = model.admit(entering)
                layer.admit(entering)
                rows = rows.extend(search.begin(entering, state))
            rows = schedule.select(rows)
            move = search.step(rows, forward)  # tokens -> hidden [R, D] -> candidates [R, k] -> surviving rows
        rows = schedule.apply(move)
        model.retain(rows.state)
        if move.finished:
            done = np.array(list(move.finished), np.int32)
            model.evict(done)
            layer.evict(done)
            yield from move.finished.items()
