"""Cube pruning equals its plain-Python reference, beam search where nothing merges, and itself in any batch."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.beam import NextLogProbs
from reference.cube import Vector, reference_cube
from support.toys import BOS, EOS, GivenScores, ToyLayer, ToyModel, asked, best, toy_requests
from unit.search.test_beam import Table, assert_equal

from sharpbeam import MachineOptions, Translator
from sharpbeam._core import table_names
from sharpbeam.decoding.forced import force
from sharpbeam.decoding.loop import decode
from sharpbeam.errors import OptionError
from sharpbeam.options.decode import ScheduleOptions, SearchOptions
from sharpbeam.scheduling.plan import Plan
from sharpbeam.scheduling.queue import RequestQueue
from sharpbeam.search.beam import BeamSearch
from sharpbeam.types import Floats, Hypothesis, Ids, Request, TopK


class TableForward:
    """A model and output layer made of tables: request -> prefix -> log probabilities [V], made up as asked for."""

    native, reason, whole = None, "it is made of tables", False

    def __init__(self, tables: dict[int, dict[tuple[int, ...], np.ndarray]]) -> None:
        self.tables = tables
        self.prefixes: list[tuple[int, ...] | None] = [None]  # by handle; None = nothing, not even bos
        self.asked = 0

    def step(self, request: Ids, state: Ids, token: Ids) -> tuple[Floats, Ids]:
        before = [self.prefixes[handle] for handle in state.tolist()]
        handles = np.arange(len(state), dtype=np.int32) + np.int32(len(self.prefixes))
        self.prefixes += [() if p is None else (*p, t) for p, t in zip(before, token.tolist(), strict=True)]
        turned = handles.astype(np.float64)  # no two of a step are alike, by their direction
        return np.stack([turned, 1e6 * np.cos(turned), 1e6 * np.sin(turned)], axis=1).astype(np.float32), handles

    def _all(self, hidden: Floats, request: Ids) -> np.ndarray:
        prefixes = (self.prefixes[int(handle)] for handle in hidden[:, 0])
        return np.stack([self.tables[r][p] for r, p in zip(request.tolist(), prefixes, strict=True)])

    def topk(self, hidden: Floats, k: int, request: Ids) -> TopK:
        self.asked += len(hidden)
        return best(self._all(hidden, request), k)

    def log_prob(self, hidden: Floats, token: Ids, request: Ids) -> Floats:
        return self._all(hidden, request)[np.arange(len(token)), token]


def merging(merge_by: str) -> dict[str, Any]:
    """The options of `merge_by`; vectors of toys are alike less often than a real model's."""
    return {"merge_by": merge_by} if merge_by == "word" else {"merge_by": merge_by, "merge_threshold": 0.8}


def scripted(search: BeamSearch, tables: dict[int, dict[tuple[int, ...], np.ndarray]]) -> dict[int, list[Hypothesis]]:
    forward = TableForward(tables)
    rows, ended = search.begin(asked(*tables), np.zeros(len(tables), np.int32)), {}
    while len(rows):
        result = search.step(rows, forward)
        rows, ended = result.rows, ended | result.finished
    assert search.work.sub_cubes in (0, forward.asked)
    return ended


ANY_OPTIONS = {
    "beam_size": st.integers(1, 6),
    "length_penalty": st.sampled_from([0.0, 1.0, 0.5, -0.7]),
    "early_stopping": st.sampled_from(["true", "false", "never", "proven", "exhaustive"]),
    "stop_margin": st.sampled_from([None, None, 1.0]),
    "max_score_margin": st.sampled_from([None, None, 0.7, 2.0]),
    "max_score_ratio": st.sampled_from([None, None, 1.5]),
    "max_children": st.sampled_from([None, None, 1, 3]),
    "finishing": st.sampled_from(["leave", "stay"]),
    "min_length": st.integers(0, 3),
    "max_length": st.integers(4, 7),
    "cube_pruning": st.sampled_from(["exact", "approximate"]),
}
ANY_TABLES = {
    "seed": st.integers(0, 10**6),
    "batch": st.integers(1, 3),
    "vocab": st.integers(3, 9),
    "levels": st.sampled_from([1, 2, 5, 1000]),
    "impossible": st.sampled_from([0.0, 0.3, 0.9]),
    "dead": st.sampled_from([0.0, 0.2]),
}


def drawn(seed, batch, vocab, levels, impossible, dead, beam_size, **values) -> tuple[SearchOptions, dict[int, Table]]:
    beam_size = min(beam_size, vocab)
    answers = max(1, beam_size - seed % 2)
    options = SearchOptions(return_scores=True, beam_size=beam_size, num_hypotheses=answers, **values)
    return options, {7 * i + 3: Table(seed + i, vocab, levels, impossible, dead) for i in range(batch)}


@settings(max_examples=200, deadline=None)
@given(**ANY_OPTIONS, **ANY_TABLES)
def test_any_scores(vocab, **values) -> None:
    options, tables = drawn(vocab=vocab, **values)
    results = scripted(BeamSearch(options, BOS, EOS, vocab), tables)
    for request, table in tables.items():
        assert_equal(results[request], reference_cube(table.__getitem__, options, EOS), options)


@settings(max_examples=100, deadline=None)
@given(
    **ANY_OPTIONS,
    **ANY_TABLES,
    repetition_penalty=st.sampled_from([1.0, 1.0, 1.7]),
    no_repeat_ngram_size=st.sampled_from([0, 0, 1, 2]),
)
def test_where_nothing_merges_it_is_beam_search(vocab, **values) -> None:
    options, tables = drawn(vocab=vocab, merge_by="likeness", merge_threshold=1.0, **values)
    plain = replace(options, cube_pruning="none", merge_by="word", merge_threshold=0.95)
    results = scripted(BeamSearch(options, BOS, EOS, vocab), tables)
    assert results == scripted(BeamSearch(plain, BOS, EOS, vocab), tables)


def toy_truth(model: ToyModel, output_layer: ToyLayer, request: Request) -> tuple[NextLogProbs, Vector]:
    """Log probabilities and hidden vectors after a prefix, by running the model from the start."""

    def vector(tokens: tuple[int, ...]) -> np.ndarray:
        decoding = model.open()
        state = decoding.admit([request])
        for token in (model.bos_id, *tokens):
            index = np.array([request.index], np.int32)
            hidden, state = decoding.step(index, state, np.array([token], np.int32))
        return hidden[0]

    return lambda tokens: output_layer.all(vector(tokens)[None])[0], vector


def run(
    model: ToyModel, requests: list[Request], options: SearchOptions, schedule: ScheduleOptions, steps: int = 4
) -> tuple[dict[int, list[Hypothesis]], BeamSearch]:
    output_layer = ToyLayer(*model.output(), steps=steps)
    search = BeamSearch(options, BOS, EOS, output_layer.vocab_size)
    plan = Plan(requests, schedule, options.beam_size, 1)
    return dict(decode(model.open(), output_layer, search, plan.schedule())), search


@pytest.mark.parametrize("cube_pruning", ["exact", "approximate"])
@pytest.mark.parametrize("merge_by", ["word", "likeness", "both"])
def test_equals_the_reference_on_models(cube_pruning: str, merge_by: str) -> None:
    merged = 0.0
    for seed in range(4):
        model, requests = ToyModel(seed, eos_bias=1.0), toy_requests(4, seed)
        options = SearchOptions(
            return_scores=True,
            beam_size=5,
            num_hypotheses=1 + seed,
            min_length=seed % 2,
            max_length=7,
            cube_pruning=cube_pruning,
            **merging(merge_by),
        )
        results, search = run(model, requests, options, ScheduleOptions(), steps=4 * (seed % 2))
        merged += search.work.merging_rate / 4
        output_layer = ToyLayer(*model.output(), steps=4 * (seed % 2))
        for request in requests:
            log_probs, vector = toy_truth(model, output_layer, request)
            assert_equal(results[request.index], reference_cube(log_probs, options, EOS, vector=vector), options)
    assert merged > 1.2


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    schedule=st.sampled_from(["batches", "stream", "stream-shortest", "stream-longest"]),
    cube_pruning=st.sampled_from(["exact", "approximate"]),
    merge_by=st.sampled_from(["word", "likeness", "both"]),
    early_stopping=st.sampled_from(["false", "proven"]),
    margin=st.sampled_from([None, 1.5]),
)
def test_the_same_in_any_batch_order_and_schedule(seed, schedule, margin, merge_by, **values) -> None:
    model, requests = ToyModel(seed, eos_bias=1.0), toy_requests(8, seed)
    options = SearchOptions(
        return_scores=True,
        beam_size=4,
        num_hypotheses=2,
        max_length=8,
        max_score_margin=margin,
        **merging(merge_by),
        **values,
    )
    expected, alone = run(model, requests, options, ScheduleOptions(batch_tokens=1))
    shuffled = random.Random(seed).sample(requests, len(requests))
    ways = ScheduleOptions(schedule=schedule, batch_tokens=30, max_rows=12, max_step_rows=8)
    results, together = run(model, shuffled, options, ways)
    assert results == expected
    assert replace(together.work, steps=0) == replace(alone.work, steps=0)
    assert model.opened[-1].sources == {} and model.opened[-1].states == {}


@pytest.mark.parametrize("cube_pruning", ["exact", "approximate"])
def test_a_threshold_of_one_is_beam_search(cube_pruning: str) -> None:
    for seed in range(5):
        model, requests = ToyModel(seed, eos_bias=1.0), toy_requests(6, seed)
        options = SearchOptions(
            return_scores=True, beam_size=4, num_hypotheses=4, max_length=5
        )  # later they all converge
        cubes = replace(options, cube_pruning=cube_pruning, merge_by="likeness", merge_threshold=1.0)
        results, search = run(model, requests, cubes, ScheduleOptions(), steps=0)
        assert results == run(model, requests, options, ScheduleOptions(), steps=0)[0]
        assert search.work.merging_rate == 1.0


@pytest.mark.parametrize("merge_by", ["word", "likeness", "both"])
def test_exact_scores_are_forced_scores_and_approximate_ones_are_not(merge_by: str) -> None:
    wrong = {"exact": 0, "approximate": 0}
    for seed in range(5):
        model, requests = ToyModel(seed, eos_bias=1.0), toy_requests(6, seed)
        output_layer = ToyLayer(*model.output(), steps=4)
        for kind in wrong:
            options = SearchOptions(
                return_scores=True, beam_size=5, num_hypotheses=5, max_length=8, cube_pruning=kind, **merging(merge_by)
            )
            answers = run(model, requests, options, ScheduleOptions())[0]
            for rank in range(min(map(len, answers.values()))):
                results = {index: hypotheses[rank] for index, hypotheses in answers.items()}
                targets = {
                    index: np.array([*h.tokens, *[EOS] * (len(h.token_log_probs) - len(h.tokens))], np.int32)
                    for index, h in results.items()
                }
                forced = dict(force(model.open(), output_layer, targets, BOS, RequestQueue(requests, 100)))
                wrong[kind] += sum(tuple(forced[i].tolist()) != h.token_log_probs for i, h in results.items())
    assert wrong["exact"] == 0
    assert wrong["approximate"] > 0


@pytest.mark.parametrize("merge_by", ["word", "likeness", "both"])
@pytest.mark.parametrize("cube_pruning", ["exact", "approximate"])
def test_the_same_bytes_on_every_table_and_with_threads(
    tiny_model, sentences, cube_pruning: str, merge_by: str
) -> None:
    texts = sentences[:12]
    options = {"beam_size": 6, "num_hypotheses": 3, "max_length": 12, "cube_pruning": cube_pruning}
    options |= merging(merge_by)
    expected = Translator(tiny_model).translate(texts, **options)
    for isa in table_names():
        machine = MachineOptions(isa=isa, threads=2)
        assert Translator(tiny_model, machine=machine).translate(texts, schedule="stream", **options) == expected
    if cube_pruning == "exact":
        assert expected != Translator(tiny_model).translate(texts, **options | {"cube_pruning": "approximate"})


def test_the_proven_rule_gives_the_answers_of_searching_to_the_end() -> None:
    saved = 0
    for seed in range(6):
        model, requests = ToyModel(seed, eos_bias=3.0), toy_requests(6, seed)
        options = SearchOptions(return_scores=True, beam_size=4, max_length=12, cube_pruning="approximate")
        proven, end = (
            run(model, requests, replace(options, early_stopping=rule), ScheduleOptions())
            for rule in ("proven", "exhaustive")
        )
        assert proven[0] == end[0]
        saved += proven[1].work.saved_steps
    assert saved > 0


def test_the_paper_s_figure() -> None:
    """Figure 2: a beam of four with the last words 433, 35, 35, 35, and the columns of the two sub-cubes."""
    big = 1000.0
    words = {(433,): {674: 0.1, 8357: 2.5, 574: 4.5}, (35,): {8: 0.8, 880: 1.2, 29: 3.3}}

    class Costs(dict):
        def __missing__(self, prefix: tuple[int, ...]) -> np.ndarray:
            row = np.full(9000, -big, np.float32)
            for token, cost in words[prefix[-1:]].items():
                row[token] = -cost
            return row

    options = SearchOptions(return_scores=True, beam_size=4, max_length=90, cube_pruning="approximate")
    search = BeamSearch(options, BOS, EOS, 9000)
    rows = search.begin(asked(0), np.zeros(1, np.int32))
    rows = rows.select(np.zeros(4, np.intp))
    rows.token[:], rows.score[:] = [433, 35, 35, 35], [-6.1, -6.5, -7.0, -7.3]
    forward = TableForward({0: Costs()})
    forward.prefixes[0] = ()
    result = search.step(rows, forward)
    assert result.rows.token.tolist() == [674, 8, 880, 8]
    np.testing.assert_allclose(result.rows.score, [-6.2, -7.3, -7.7, -7.8], rtol=1e-6)
    assert (search.work.sub_cubes, search.work.model_rows, search.work.merging_rate) == (2, 2, 2.0)


class Speakers(GivenScores):
    """A forward pass with given hidden vectors, which keeps the rows that the search asks for."""

    def __init__(self, hidden: Floats) -> None:
        super().__init__(np.tile(np.log(np.arange(1, 13, dtype=np.float32) / 78), (len(hidden), 1)))
        self.hidden, self.rows = hidden, list[int]()

    def step(self, request: Ids, state: Ids, token: Ids) -> tuple[Floats, Ids]:
        return self.hidden[state], state

    def topk(self, hidden: Floats, k: int, request: Ids) -> TopK:
        self.rows = [int(np.flatnonzero((self.hidden == own).all(axis=1))[0]) for own in hidden]
        return best(self.given[: len(hidden)], k)


def speakers(tokens: list[list[int]], hidden: np.ndarray, merge_by: str, **values: Any) -> list[int]:
    """The rows that speak for their groups; rows have these last tokens and hidden vectors [R, D]."""
    options = SearchOptions(return_scores=True, beam_size=6, cube_pruning="approximate", merge_by=merge_by, **values)
    search, forward = BeamSearch(options, BOS, EOS, 12), Speakers(hidden.astype(np.float32))
    rows = search.begin(asked(*range(len(tokens))), np.zeros(len(tokens), np.int32))
    rows = rows.select(np.arange(len(tokens)).repeat([len(own) for own in tokens]))
    rows.token, rows.state = np.concatenate(tokens).astype(np.int32), np.arange(len(rows), dtype=np.int32)
    search.step(rows, forward)
    return forward.rows


def test_rows_are_grouped_within_their_request() -> None:
    tokens = [[9, 7, 9], [9, 9]]
    turned = np.deg2rad([0.0, 90.0, 20.0, 0.0, 31.0])
    hidden = np.stack([np.cos(turned), np.sin(turned)], axis=1) * np.arange(1, 6)[:, None]
    assert speakers(tokens, hidden, "word") == [0, 1, 3]
    assert speakers(tokens, hidden, "likeness", merge_threshold=float(np.cos(np.deg2rad(30)))) == [0, 1, 3, 4]
    assert speakers(tokens, hidden, "both", merge_threshold=0.5) == [0, 1, 3]
    turned = hidden[[0, 2, 1, 3, 4]]
    assert speakers([[9, 7, 8], [9, 8]], turned, "both", merge_threshold=0.9) == [0, 2, 3, 4]


def test_a_hidden_vector_without_direction_is_like_none() -> None:
    hidden = np.array([[0, 0], [0, 0], [1, 0]])
    assert speakers([[3, 4, 5]], hidden, "likeness", merge_threshold=0.5) == [0, 0, 2]


@pytest.mark.parametrize(
    "values",
    [
        {"cube_pruning": "yes"},
        {"merge_by": "length"},
        {"merge_threshold": 1.5},
        {"merge_threshold": np.nan},
        {"merge_by": "likeness"},  # without cube pruning
        {"merge_threshold": 0.9},
    ],
)
def test_wrong_values_are_named(values: dict) -> None:
    with pytest.raises(OptionError, match=f"{next(iter(values))} is .*; it must be"):
        SearchOptions(return_scores=True, **values)
