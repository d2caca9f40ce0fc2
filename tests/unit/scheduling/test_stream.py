"""Streams: the answers of batches in every order, bounded memory, refills and orders as promised."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.toys import BOS, EOS, ToyLayer, ToyModel, toy_requests

from sharpbeam.decoding.loop import ForwardPass, decode
from sharpbeam.errors import OptionError
from sharpbeam.options.decode import ScheduleOptions, SearchOptions
from sharpbeam.scheduling.plan import Plan
from sharpbeam.scheduling.queue import RequestQueue
from sharpbeam.scheduling.stream import Stream
from sharpbeam.search.beam import BeamSearch
from sharpbeam.types import Footprint, Request, Rows, StepResult

ORDERS = ["stream", "stream-shortest", "stream-longest"]


def run(model: ToyModel, requests: list[Request], search_options: SearchOptions, options: ScheduleOptions):
    output_layer = ToyLayer(*model.output(), steps=4)
    search = BeamSearch(search_options, BOS, EOS, output_layer.vocab_size)
    plan = Plan(requests, options, search_options.beam_size, 1, Footprint(row=100, position=10))
    return dict(decode(model.open(), output_layer, search, plan.schedule())), search


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    schedule=st.sampled_from(ORDERS),
    max_rows=st.sampled_from([1, 9, 20, 200]),
    refill_at=st.sampled_from([0.0, 1 / 6, 0.5, 0.9]),
    max_step_rows=st.sampled_from([1, 4, 12]),
    max_wait=st.sampled_from([None, 1, 3]),
    max_memory=st.sampled_from([None, 2000, 5000]),
    margin=st.sampled_from([None, 1.5]),
    finishing=st.sampled_from(["leave", "stay"]),
    early_stopping=st.sampled_from(["false", "proven"]),
)
def test_streams_answer_as_batches(seed, margin, finishing, early_stopping, schedule, **values) -> None:
    model, requests = ToyModel(seed, eos_bias=1.0), toy_requests(9, seed)
    options = SearchOptions(
        beam_size=3,
        num_hypotheses=2,
        max_length=9,
        max_score_margin=margin,
        finishing=finishing,
        early_stopping=early_stopping,
    )
    expected, batches = run(model, requests, options, ScheduleOptions())
    shuffled = random.Random(seed).sample(requests, len(requests))
    result, stream = run(model, shuffled, options, ScheduleOptions(schedule=schedule, **values))
    assert result == expected
    assert replace(stream.work, steps=0) == replace(batches.work, steps=0)  # the same work in another order
    assert model.opened[-1].sources == {} and model.opened[-1].states == {}


def test_streams_need_fewer_steps_than_small_batches() -> None:
    model, requests = ToyModel(3, eos_bias=1.0), toy_requests(40, 3)
    search = SearchOptions(beam_size=2, max_length=25)
    batches = run(model, requests, search, ScheduleOptions(batch_tokens=30))[1].work.steps
    assert run(model, requests, search, ScheduleOptions(schedule="stream", max_rows=20))[1].work.steps < batches


def test_the_tree_of_tokens_stays_small_in_a_long_stream() -> None:
    model = ToyModel(5, eos_bias=2.0)
    requests = toy_requests(120, 5)
    options = ScheduleOptions(schedule="stream", max_rows=16, refill_at=0.9)
    search_options = SearchOptions(beam_size=4, max_length=20)
    with pytest.MonkeyPatch.context() as patch:
        highest, step = [0], BeamSearch.step

        def watched(self: BeamSearch, rows: Rows, forward: ForwardPass) -> StepResult:
            highest.append(rows.node.max())
            return step(self, rows, forward)

        patch.setattr(BeamSearch, "step", watched)
        result, search = run(model, requests, search_options, options)
    assert search.work.expansions > 2 * 1024  # at most as many as nodes: nodes have been used twice and more
    assert max(highest) < 1024
    expected, _ = run(model, requests, search_options, ScheduleOptions())
    assert result == expected


def request(index: int) -> Request:
    return Request(index, np.zeros(2, np.int32))


def rows(*lengths: int, size: int = 2) -> Rows:
    """Requests 0, 1, ... with `size` rows of these lengths each."""
    index = np.arange(len(lengths), dtype=np.int32).repeat(size)
    return Rows(index, index, index, index, np.array(lengths, np.int32).repeat(size), np.zeros(len(index)))


@pytest.mark.parametrize(
    ("schedule", "cap", "runs"),
    [
        ("stream", None, [0, 1, 2, 3]),
        ("stream", 5, [0, 1]),
        ("stream-shortest", None, [1, 3]),
        ("stream-shortest", 2, [1]),
        ("stream-shortest", 6, [1, 2, 3]),
        ("stream-longest", 2, [0]),
        ("stream-longest", 4, [0, 2]),
        ("stream-longest", 1, [0]),  # not split, and never nothing
        ("stream-longest", 8, [0, 1, 2, 3]),
    ],
)
def test_who_takes_the_next_step(schedule: str, cap: int | None, runs: list[int]) -> None:
    options = ScheduleOptions(schedule=schedule, max_step_rows=cap)
    stream = Stream(RequestQueue(request(i) for i in range(4)), options, 2)
    stream.refill()
    selected = stream.select(rows(7, 1, 4, 1))
    assert selected.request.tolist() == [i for i in runs for _ in range(2)]
    again = stream.apply(StepResult(selected, {}))
    waited = [i for i in range(4) if i not in runs]
    assert again.request.tolist() == [i for i in (*waited, *runs) for _ in range(2)]


def test_who_ran_in_every_step_is_not_late() -> None:
    stream = Stream(
        RequestQueue(request(i) for i in range(4)), ScheduleOptions("stream", max_wait=2, max_step_rows=8), 2
    )
    stream.refill()
    for _ in range(5):
        some = stream.apply(StepResult(stream.select(rows(1, 1, 1, 1)), {}))
    more = some.extend(some)
    selected = stream.select(more.select(np.argsort(-more.request, kind="stable")))
    assert sorted({*selected.request.tolist()}) == [2, 3]  # as they come: none has waited


def entering(stream: Stream) -> list[int]:
    return [r.index for r in stream.refill()]


def test_a_stream_is_refilled_when_few_are_left() -> None:
    queue = RequestQueue(request(i) for i in range(9))
    stream = Stream(queue, ScheduleOptions(schedule="stream", refill_at=0.5, max_rows=8), 2)
    assert entering(stream) == [0, 1, 2, 3]
    live = stream.select(rows(1, 1, 1, 1))
    live = stream.apply(StepResult(live.select(live.request > 0), {0: []}))
    assert entering(stream) == []
    stream.select(live)
    live = stream.apply(StepResult(live.select(live.request > 1), {1: []}))
    assert entering(stream) == [4, 5]
    stream.apply(StepResult(rows(), {2: [], 3: [], 4: [], 5: []}))
    assert entering(stream) == [6, 7, 8]
    stream.apply(StepResult(rows(), {6: [], 7: [], 8: []}))
    assert not stream.busy


def test_narrow_beams_let_more_requests_in() -> None:
    """A request counts for the whole beam until one is done, then for the rows that requests had on the average."""
    queue = RequestQueue(request(i) for i in range(99))
    stream = Stream(queue, ScheduleOptions(schedule="stream", refill_at=0.5, max_rows=20), 10)
    assert entering(stream) == [0, 1]
    live = stream.select(rows(1, 1, size=2))
    live = stream.apply(StepResult(live.select(live.request == 1), {0: []}))
    assert entering(stream) == list(range(2, 11))  # 10 requests of 2 rows


def test_a_closed_queue_ends_a_stream() -> None:
    queue = RequestQueue(request(i) for i in range(9))
    stream = Stream(queue, ScheduleOptions(schedule="stream"), 5)
    stream.refill()
    queue.close()
    assert not stream.busy


def test_workers_share_a_short_stream() -> None:
    for schedule, threads in product(ORDERS, (1, 2, 3)):
        options = ScheduleOptions(schedule=schedule, max_step_rows=10)
        plan = Plan([request(i) for i in range(6)], options, 5, threads)
        schedules = [plan.schedule() for _ in range(plan.workers)]
        assert [len(s.refill()) for s in schedules] == [6 // threads] * threads
    assert Plan([], ScheduleOptions(schedule="stream"), 5, 4).workers == 0


@pytest.mark.parametrize(
    "values",
    [
        {"schedule": "fifo"},
        {"max_rows": 0},
        {"refill_at": 1.0},
        {"max_step_rows": 0},
        {"schedule": "stream-longest"},
        {"max_wait": 0},
        {"max_wait": 3, "schedule": "batches"},
        {"max_memory": 0},
    ],
)
def test_wrong_values_are_named(values: dict) -> None:
    name = "max_step_rows" if "stream-longest" in values.values() else next(iter(values))
    with pytest.raises(OptionError, match=f"{name} is .*; it must be"):
        ScheduleOptions(**values)
