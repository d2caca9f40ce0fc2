"""The decoding loop: the only code that knows model, output layer, search and schedule."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from sharpbeam.models.interface import Decoding
from sharpbeam.output_layers.interface import OutputLayer, OutputLayerRun
from sharpbeam.scheduling.interface import Schedule
from sharpbeam.search.interface import Search
from sharpbeam.types import Floats, Hypothesis, Rows

ALONE = nullcontext()
Finished = dict[int, list[Hypothesis]]  # by request index; best first


class Forward:
    """Model and output layer as a search sees them: `search.interface.Forward`."""

    def __init__(self, model: Decoding, layer: OutputLayerRun, whole: bool = False) -> None:
        self._model, self.whole = model, whole
        self.topk, self.log_prob = layer.topk, layer.log_prob
        model_run, layer_run = getattr(model, "core", None), layer.native
        self.core = None if model_run is None or layer_run is None else (model_run, layer_run)
        self.python_steps = 0
        """Steps of the model that were not part of a native step."""

    def step(self, rows: Rows) -> Floats:
        """Hidden vectors [R, D] of all rows, whose states become the new ones."""
        self.python_steps += 1
        hidden, rows.state = self._model.step(rows.request, rows.state, rows.token)
        return hidden


class Run:
    """One decoding run, step by step. For one thread at a time, but for `cancel`."""

    def __init__(
        self,
        model: Decoding,
        output_layer: OutputLayer,
        search: Search,
        schedule: Schedule,
        team: AbstractContextManager[None] = ALONE,
    ) -> None:
        """`team` (decoding/workers.py) is entered for each step: its threads share the work of a matmul."""
        self.model, self.layer, self.search, self.schedule = model, output_layer.open(), search, schedule
        self._team = team
        self.rows = Rows.empty()
        """Live hypotheses of all requests in flight."""
        self._forward = Forward(model, self.layer)
        self._cancelled: deque[int] = deque()

    def step(self) -> Finished:
        """Let requests enter and decode one token for each row (or several, `Schedule.whole`); returns what is done."""
        if self._cancelled:
            self._drop()
        with self._team:
            if entering := self.schedule.refill():
                state = self.model.admit(entering)
                self.layer.admit(entering)
                self.rows = self.rows.extend(self.search.begin(entering, state))
            if not len(self.rows):
                return {}
            rows = self.schedule.select(self.rows)
            self._forward.whole = self.schedule.whole
            result = self.search.step(rows, self._forward)  # tokens -> hidden [R, D] -> candidates [R, k] -> rows
        self.rows = self.schedule.apply(result)
        self.model.retain(self.rows.state)
        if result.finished:
            self._evict(list(result.finished))
        return result.finished

    def cancel(self, request: int) -> None:
        """Drop a request at the next step, if it is in flight then. Any thread may call this."""
        self._cancelled.append(request)

    def _drop(self) -> None:
        cancelled = {self._cancelled.popleft() for _ in range(len(self._cancelled))}
        gone = [request for request in dict.fromkeys(self.rows.request.tolist()) if request in cancelled]
        for request in gone:
            self.search.cancel(request)
            self.schedule.cancel(request)
        if gone:
            self.rows = self.rows.select(~np.isin(self.rows.request, gone))
            self.model.retain(self.rows.state)
            self._evict(gone)

    def _evict(self, requests: list[int]) -> None:
        index = np.array(requests, np.int32)
        self.model.evict(index)
        self.layer.evict(index)


def decode(
    model: Decoding,
    output_layer: OutputLayer,
    search: Search,
    schedule: Schedule,
    team: AbstractContextManager[None] = ALONE,
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Run until the schedule is out of work; yields (request index, its hypotheses, best first) as they are done."""
    run = Run(model, output_layer, search, schedule, team)
    while schedule.busy:
        yield from run.step().items()
