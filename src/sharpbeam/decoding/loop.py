"""The decoding loop: the only code that knows model, output layer, search and schedule."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from threading import current_thread, main_thread
from typing import Literal

import numpy as np

from sharpbeam.models.interface import Decoding, Model
from sharpbeam.options.decode import SearchOptions
from sharpbeam.output_layers.interface import OutputLayer, OutputLayerRun
from sharpbeam.scheduling.batches import FixedBatches
from sharpbeam.scheduling.interface import Schedule
from sharpbeam.scheduling.queue import RequestQueue
from sharpbeam.search.beam import BeamSearch
from sharpbeam.search.interface import Search
from sharpbeam.types import Hypothesis, Request, Rows

Finished = list[tuple[Request, list[Hypothesis]]]  # requests that are done; their hypotheses, best first
Alone = Literal["one step", "until others come", "to the end"]  # how far `step` decodes a request that is alone


class ForwardPass:
    """Model and output layer as a search sees them: `search.interface.Forward`."""

    def __init__(self, model: Decoding, layer: OutputLayerRun) -> None:
        self.whole = False
        self.step, self.topk, self.log_prob = model.step, layer.topk, layer.log_prob
        self.layer = layer.native
        self.native = None if model.native is None or layer.native is None else (model.native, layer.native)
        self.reason = "" if self.native else model.reason if model.native is None else layer.reason


class Run:
    """One decoding run, step by step. For one thread at a time, except for `cancel`."""

    def __init__(self, model: Decoding, output_layer: OutputLayer, search: Search, schedule: Schedule) -> None:
        self.model, self.layer, self.search, self.schedule = model, output_layer.open(), search, schedule
        self.flight: dict[int, Request] = {}
        """The requests in flight, by index."""
        self.rows = Rows.empty()
        """Their live hypotheses."""
        self.most_requests = 0
        """The largest number of requests in flight so far."""
        self._forward = ForwardPass(model, self.layer)
        self._cancelled: deque[int] = deque()
        self.interrupt: Callable[[], None] = getattr(search, "interrupt", lambda: None)  # a search may leave it out

    @property
    def busy(self) -> bool:
        """Whether requests are in flight or waiting."""
        return self.schedule.busy

    @property
    def requests(self) -> list[int]:
        """The requests that are not done."""
        return list(self.flight)

    def step(self, alone: Alone = "one step") -> Finished:
        """Let requests enter, decode one token for each row (or several, `Schedule.whole`), and return what is done."""
        if self._cancelled:
            self._drop()
        if entering := self.schedule.refill():
            for request in entering:
                self.flight[request.index] = request
            self.most_requests = max(self.most_requests, len(self.flight))
            # Other threads hear of an interrupt between steps only.
            alone_here = self.schedule.whole and self.schedule.final and current_thread() is main_thread()
            if len(self.flight) == 1 and (alone == "to the end" or alone_here):
                decode = getattr(self.search, "decode", None)  # a search may leave it out
                hypotheses = decode(request, self._forward) if decode else None
                if hypotheses is not None:
                    self.flight.clear()
                    self.schedule.leave(request.index)
                    return [(request, hypotheses)]
            state = self.model.admit(entering)
            self.layer.admit(entering)
            self.rows = self.rows.extend(self.search.begin(entering, state))
        if not self.flight:
            return []
        rows = self.schedule.select(self.rows)
        self._forward.whole = self.schedule.whole or (alone != "one step" and len(self.flight) == 1)
        result = self.search.step(rows, self._forward)  # tokens -> hidden [R, D] -> candidates [R, k] -> surviving rows
        self.rows = self.schedule.apply(result)
        self.model.retain(self.rows.state)
        if not result.finished:
            return []
        finished = [(self.flight[index], hypotheses) for index, hypotheses in result.finished.items()]
        self._evict(result.finished)
        return finished

    def cancel(self, request: int) -> None:
        """Drop a request at the next step if it is in flight. Any thread may call this."""
        self._cancelled.append(request)
        self.interrupt()

    def peek(self, request: int) -> tuple[list[Hypothesis], list[int]]:
        """Between steps: finished hypotheses of a request in flight, best first, and the tokens of its first row."""
        row = int((self.rows.request == request).argmax())
        return self.search.peek(request, int(self.rows.node[row]))

    def _drop(self) -> None:
        cancelled = {self._cancelled.popleft() for _ in range(len(self._cancelled))} & self.flight.keys()
        for request in cancelled:
            self.search.cancel(request)
            self.schedule.leave(request)
        if cancelled:
            self.rows = self.rows.select(~np.isin(self.rows.request, list(cancelled)))
            self.model.retain(self.rows.state)
            self._evict(cancelled)

    def _evict(self, requests: Collection[int]) -> None:
        index = np.array(list(requests), np.int32)
        self.model.evict(index)
        self.layer.evict(index)
        for request in requests:
            del self.flight[request]


def beam_search(
    model: Model, layer: OutputLayer, requests: Sequence[Request], options: SearchOptions, tokens: int = 0
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """As `decode`, of `requests` in batches of so many `tokens` of the sources; 0: RequestQueue's."""
    search = BeamSearch(options, model.bos_id, model.eos_id, layer.vocab_size)
    return decode(model.open(), layer, search, FixedBatches(RequestQueue(requests, tokens)))


def decode(
    model: Decoding, output_layer: OutputLayer, search: Search, schedule: Schedule
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Run until the schedule has no work; yields (request index, its hypotheses, best first) as they are done."""
    run = Run(model, output_layer, search, schedule)
    while schedule.busy:
        yield from ((request.index, hypotheses) for request, hypotheses in run.step())
