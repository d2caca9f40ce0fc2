"""The proven rule gives the answers of searching to the end, in fewer steps; patience and margin stop as they say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.toys import EOS, ToyLayer, ToyModel, asked, step, toy_requests

from sharpbeam.decoding.loop import decode
from sharpbeam.errors import ModelError, OptionError
from sharpbeam.options.decode import SearchOptions
from sharpbeam.scheduling.batches import FixedBatches
from sharpbeam.scheduling.queue import RequestQueue
from sharpbeam.search.beam import BeamSearch
from sharpbeam.search.work import Work
from sharpbeam.types import Hypothesis, TopK


def run(seed: int, options: SearchOptions, steps: int, eos_bias: float) -> tuple[dict[int, list[Hypothesis]], Work]:
    model = ToyModel(seed, vocab=12, eos_bias=eos_bias)
    output_layer = ToyLayer(*model.output(), steps=steps)
    search = BeamSearch(options, model.bos_id, model.eos_id, output_layer.vocab_size)
    results = dict(decode(model.open(), output_layer, search, FixedBatches(RequestQueue(toy_requests(2, seed)))))
    return results, search.work


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    beam_size=st.integers(1, 5),
    fewer=st.integers(0, 4),
    length_penalty=st.sampled_from([-10.0, -1.0, -0.3, 0.0, 0.6, 1.0, 2.0, 10.0]),
    min_length=st.integers(0, 6),
    steps=st.sampled_from([0, 1, 4]),
    eos_bias=st.sampled_from([-2.0, 1.0, 4.0]),
    finishing=st.sampled_from(["leave", "stay"]),
    max_score_margin=st.sampled_from([None, 1.0, 5.0]),
)
def test_proven_is_exhaustive(seed, beam_size, fewer, steps, eos_bias, **values) -> None:
    exhaustive = SearchOptions(
        return_scores=True,
        beam_size=beam_size,
        num_hypotheses=max(1, beam_size - fewer),
        max_length=14,
        early_stopping="exhaustive",
        **values,
    )
    expected, full = run(seed, exhaustive, steps, eos_bias)
    results, work = run(seed, replace(exhaustive, early_stopping="proven"), steps, eos_bias)
    assert results == expected
    assert full.saved_steps == 0
    assert work.requests == full.requests == 2
    assert work.request_steps + work.saved_steps >= full.request_steps >= work.request_steps
    assert work.expansions <= full.expansions


@pytest.mark.parametrize(("length_penalty", "share"), [(-1.0, 0.6), (0.0, 0.6), (0.6, 0.3), (1.0, 0.1)])
def test_proven_saves_steps(length_penalty: float, share: float) -> None:
    options = SearchOptions(
        return_scores=True, beam_size=4, length_penalty=length_penalty, max_length=30, early_stopping="proven"
    )
    saved = total = 0
    for seed in range(10):
        _, work = run(seed, options, 0, 3.0)
        saved += work.saved_steps
        total += work.saved_steps + work.request_steps
    assert saved > share * total


def play(options: SearchOptions, rows: list[list[float]]) -> tuple[list[Hypothesis], Work]:
    """One request whose every row, after t tokens, gives pad, bos, eos and word the log probabilities rows[t]."""
    search = BeamSearch(options, 1, EOS, 4)
    live = search.begin(asked(0), np.zeros(1, np.int32))
    for t in range(options.max_length):
        table = np.tile(np.array(rows[min(t, len(rows) - 1)], np.float32), (len(live), 1))
        result = step(search, live, table)
        if result.finished:
            return result.finished[0], search.work
        live = result.rows
    raise AssertionError("a request without end")


NO = -np.inf


def test_a_long_end_may_still_win() -> None:
    options = SearchOptions(return_scores=True, beam_size=2, max_length=40)
    rows = [[NO, NO, -1.0, -1.2], [NO, NO, -0.1, -2.0], [NO, NO, -1.0, -0.0]]  # in the end -3.2 / 40
    answers = {}
    for rule in ("false", "never", "proven", "exhaustive"):
        answers[rule], work = play(replace(options, early_stopping=rule), rows)
        assert work.steps == (2 if rule == "false" else 40)
    assert answers["never"] == answers["proven"] == answers["exhaustive"] != answers["false"]


def test_proven_waits_for_the_answers_only() -> None:
    """The last of the beam may still be beaten, but it is not asked for: "never" does not use that."""
    options = SearchOptions(return_scores=True, beam_size=2, length_penalty=0.0, max_length=40)
    rows = [[NO, NO, -0.1, -2.5], [NO, NO, -4.0, -0.05]]
    steps = {}
    for rule in ("never", "proven", "exhaustive"):
        answer, work = play(replace(options, early_stopping=rule), rows)
        assert answer[0].log_prob == pytest.approx(-0.1)
        steps[rule] = work.steps
    assert steps["proven"] == 1 < steps["never"] <= steps["exhaustive"] == 40


def test_patience_is_refused_where_it_has_no_effect() -> None:
    with pytest.raises(OptionError, match=r"patience is 2\.0; it must be 1.0 with early_stopping proven"):
        SearchOptions(return_scores=True, early_stopping="proven", patience=2.0)


def test_patience_waits_for_more() -> None:
    rows = [[NO, NO, -1.0, -0.5]]
    for patience, steps in ((0.5, 1), (1.0, 2), (1.5, 3), (4.0, 8)):
        options = SearchOptions(
            return_scores=True, beam_size=2, early_stopping="true", patience=patience, max_length=30
        )
        assert play(options, rows)[1].steps == steps


def test_stop_margin_is_measured_from_the_best_finished() -> None:
    rows = [[NO, NO, -1.0, -0.5]]  # finished: -1; live after t tokens: -t / 2
    for margin, steps in ((0.0, 3), (0.9, 4), (1.0, 5), (3.0, 9)):
        options = SearchOptions(
            return_scores=True, beam_size=2, early_stopping="exhaustive", stop_margin=margin, max_length=30
        )
        assert play(options, rows)[1].steps == steps


def test_proven_refuses_log_probabilities_above_zero() -> None:
    search = BeamSearch(SearchOptions(return_scores=True, beam_size=2, early_stopping="proven"), 1, EOS, 9)
    top = TopK(np.array([[0.1, -1, -2, -3]], np.float32), np.array([[3, 4, 5, 6]], np.int32))
    with pytest.raises(ModelError, match="above 0"):
        step(search, search.begin(asked(0), np.zeros(1, np.int32)), top)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"patience": 0.1}, "patience is 0.1; it must be between 0.2 and 1000"),
        ({"num_hypotheses": 4, "patience": 0.7}, "between 0.8"),
        ({"stop_margin": -1.0}, "stop_margin is -1.0; it must be 0 or more"),
        ({"early_stopping": "soon"}, "true, false, never or proven"),
    ],
)
def test_wrong_values_are_named(values: dict, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        SearchOptions(return_scores=True, **values)
