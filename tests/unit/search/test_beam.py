"""Beam search against its plain-Python reference: token for token, score for score, over random models and options."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.beam import NextLogProbs, reference_greedy, reference_search
from support.toys import EOS, GivenScores, ToyLayer, ToyModel, asked, step, toy_requests

from sharpbeam.decoding.loop import decode
from sharpbeam.errors import ModelError, OptionError
from sharpbeam.options.decode import SearchOptions
from sharpbeam.scheduling.batches import FixedBatches
from sharpbeam.scheduling.queue import RequestQueue
from sharpbeam.search.beam import BeamSearch
from sharpbeam.types import Hypothesis, Request, TopK


def run(model: ToyModel, output_layer: ToyLayer, requests: list[Request], options: SearchOptions, batch_tokens: int):
    search = BeamSearch(options, model.bos_id, model.eos_id, output_layer.vocab_size)
    return dict(decode(model.open(), output_layer, search, FixedBatches(RequestQueue(requests, batch_tokens))))


def toy_log_probs(model: ToyModel, output_layer: ToyLayer, request: Request) -> NextLogProbs:
    """All log probabilities after a prefix, by running the model from the start."""

    def next_log_probs(tokens: tuple[int, ...]) -> np.ndarray:
        decoding = model.open()
        state = decoding.admit([request])
        for token in (model.bos_id, *tokens):
            index = np.array([request.index], np.int32)
            hidden, state = decoding.step(index, state, np.array([token], np.int32))
        return output_layer.all(hidden)[0]

    return next_log_probs


def assert_equal(outcome: list[Hypothesis], expected: list, options: SearchOptions) -> None:
    assert len(outcome) == len(expected)
    for hypothesis, beam in zip(outcome, expected, strict=True):
        ended = beam.tokens[-1:] == (EOS,)
        assert hypothesis.tokens == (beam.tokens[:-1] if ended else beam.tokens)
        assert hypothesis.token_log_probs == beam.log_probs
        assert hypothesis.log_prob == sum(beam.log_probs)
        plain = options.repetition_penalty == 1
        assert not plain or hypothesis.log_prob == beam.total
        assert hypothesis.score == pytest.approx(beam.score, rel=1e-12)


@pytest.mark.parametrize("early_stopping", ["true", "false", "never", "proven", "exhaustive"])
@pytest.mark.parametrize("beam_size", [1, 2, 4, 5])
def test_equals_the_reference(beam_size: int, early_stopping: str) -> None:
    for seed, penalty in enumerate((0.0, 0.6, 1.0, 2.0, -1.0)):
        model = ToyModel(seed, eos_bias=seed - 1.0)
        output_layer = ToyLayer(*model.output(), steps=0 if seed % 2 else 4)
        options = SearchOptions(
            return_scores=True,
            beam_size=beam_size,
            num_hypotheses=1 + seed % beam_size,
            length_penalty=penalty,
            early_stopping=early_stopping,
            min_length=seed % 3,
            max_length=8,
        )
        requests = toy_requests(4, seed)
        outcome = run(model, output_layer, requests, options, batch_tokens=1000)
        for request in requests:
            expected = reference_search(toy_log_probs(model, output_layer, request), options, EOS)
            assert_equal(outcome[request.index], expected, options)


def test_beam_one_is_greedy() -> None:
    for seed in range(10):
        model = ToyModel(seed, eos_bias=float(seed % 3))
        output_layer = ToyLayer(*model.output(), steps=3 * (seed % 2))
        early_stopping = ("true", "false", "never")[seed % 3]
        options = SearchOptions(
            return_scores=True, beam_size=1, min_length=seed % 4, max_length=12, early_stopping=early_stopping
        )
        requests = toy_requests(3, seed)
        outcome = run(model, output_layer, requests, options, batch_tokens=1000)
        for request in requests:
            expected = reference_greedy(toy_log_probs(model, output_layer, request), options, EOS)
            assert_equal(outcome[request.index], [expected], options)


def scripted(tables: dict[int, dict[tuple[int, ...], np.ndarray]], options: SearchOptions, vocab: int):
    """Run the search on log probabilities from tables (request -> prefix -> [V]), which are made up as asked for."""
    search = BeamSearch(options, 1, EOS, vocab)
    rows = search.begin(asked(*tables), np.arange(len(tables), dtype=np.int32))
    prefixes = [() for _ in tables]  # by handle
    hypotheses: dict[int, list[Hypothesis]] = {}
    while len(rows):
        scores = np.stack(
            [tables[r][prefixes[s]] for r, s in zip(rows.request.tolist(), rows.state.tolist(), strict=True)]
        )
        parents = [prefixes[s] for s in rows.state.tolist()]
        result = step(search, rows, scores)
        rows, hypotheses = result.rows, hypotheses | result.finished
        prefixes = [(*parents[s], t) for s, t in zip(rows.state.tolist(), rows.token.tolist(), strict=True)]
        rows.state = np.arange(len(rows), dtype=np.int32)
    return hypotheses


class Table(dict):
    """Prefix -> random log probabilities [V], with ties, -inf and rows without any candidate, if asked for."""

    def __init__(self, seed: int, vocab: int, levels: int, impossible: float, dead: float) -> None:
        super().__init__()
        self.seed, self.vocab, self.levels, self.impossible, self.dead = seed, vocab, levels, impossible, dead

    def __missing__(self, prefix: tuple[int, ...]) -> np.ndarray:
        draw = np.random.default_rng([self.seed, *prefix])
        row = -draw.integers(0, self.levels, self.vocab).astype(np.float32) * np.float32(0.37)
        row[draw.random(self.vocab) < self.impossible] = -np.inf
        if draw.random() < self.dead:
            row[:] = -np.inf
        self[prefix] = row
        return row


@settings(max_examples=400, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    batch=st.integers(1, 4),
    vocab=st.integers(3, 12),
    beam_size=st.integers(1, 6),
    length_penalty=st.sampled_from([0.0, 1.0, 0.5, 2.0, -0.7]),
    early_stopping=st.sampled_from(["true", "false", "never", "proven", "exhaustive"]),
    patience=st.sampled_from([1.0, 1.0, 2.0, 0.5]),
    stop_margin=st.sampled_from([None, None, 0.0, 1.0]),
    max_score_margin=st.sampled_from([None, None, 0.0, 0.7, 2.0]),
    max_score_ratio=st.sampled_from([None, None, 1.0, 1.5]),
    max_children=st.sampled_from([None, None, 1, 2, 3]),
    finishing=st.sampled_from(["leave", "stay"]),
    min_length=st.integers(0, 3),
    max_length=st.integers(4, 7),
    levels=st.sampled_from([1, 2, 5, 1000]),
    impossible=st.sampled_from([0.0, 0.3, 0.9]),
    dead=st.sampled_from([0.0, 0.2]),
)
def test_any_scores(seed, batch, vocab, beam_size, levels, impossible, dead, patience, **values) -> None:
    beam_size = min(beam_size, vocab)
    if values["early_stopping"] in ("proven", "exhaustive"):
        patience = 1.0
    answers = max(1, int(beam_size * min(patience, 1.0)) - seed % 2)
    patience = max(patience, answers / beam_size)
    options = SearchOptions(
        return_scores=True, beam_size=beam_size, num_hypotheses=answers, patience=patience, **values
    )
    tables = {7 * i + 3: Table(seed + i, vocab, levels, impossible, dead) for i in range(batch)}
    outcome = scripted(tables, options, vocab)
    assert outcome.keys() == tables.keys()
    for request, table in tables.items():
        assert_equal(outcome[request], reference_search(table.__getitem__, options, EOS), options)


def test_ties_go_to_the_lower_row_then_the_lower_id() -> None:
    flat = np.log(np.full(6, 1 / 6, np.float32))
    options = SearchOptions(return_scores=True, beam_size=2, num_hypotheses=2, max_length=2)
    outcome = scripted({0: Table(0, 6, 1, 0.0, 0.0)}, options, 6)
    assert [h.tokens for h in outcome[0]] == [(0, 0), (0, 1)]
    search = BeamSearch(options, 1, EOS, 6)
    result = step(search, search.begin(asked(0), np.zeros(1, np.int32)), flat[None])
    assert result.rows.token.tolist() == [0, 1]


def test_requests_may_enter_at_any_step() -> None:
    """Rows of different lengths in one batch, as in streaming, answer as each alone."""
    options = SearchOptions(return_scores=True, beam_size=3, num_hypotheses=3, min_length=2, max_length=6)
    tables = {i: Table(50 + i, 9, 1000, 0.0, 0.0) for i in range(4)}
    search = BeamSearch(options, 1, EOS, 9)
    rows, prefixes = search.begin([], np.empty(0, np.int32)), []
    outcome: dict[int, list[Hypothesis]] = {}
    waiting = list(tables)
    while len(rows) or waiting:
        if waiting:  # one enters at each step
            rows = rows.extend(search.begin(asked(waiting.pop(0)), np.zeros(1, np.int32)))
            prefixes.append(())
        scores = np.stack([tables[r][p] for r, p in zip(rows.request.tolist(), prefixes, strict=True)])
        result = step(search, rows, scores)
        rows, outcome = result.rows, outcome | result.finished
        tokens = rows.token.tolist()
        prefixes = [(*prefixes[s], t) for s, t in zip(rows.state.tolist(), tokens, strict=True)]
    for request, table in tables.items():
        assert_equal(outcome[request], reference_search(table.__getitem__, options, EOS), options)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_log_probability_that_is_no_number_names_the_request(value: float) -> None:
    search = BeamSearch(SearchOptions(return_scores=True, beam_size=2), 1, EOS, 9)
    rows = search.begin(asked(11, 42), np.zeros(2, np.int32))
    log_prob = -np.arange(8, dtype=np.float32).reshape(2, 4)
    log_prob[1, 2] = value
    log_prob[0, 3] = -np.inf  # this one is allowed
    with pytest.raises(ModelError, match="request 42"):
        step(search, rows, TopK(log_prob, np.tile(np.arange(4, dtype=np.int32) + 3, (2, 1))))


def test_a_beam_wider_than_the_vocabulary_is_refused() -> None:
    with pytest.raises(OptionError, match=r"beam_size is 10; it must be at most 9"):
        BeamSearch(SearchOptions(return_scores=True, beam_size=10), 1, EOS, 9)


def test_no_more_candidates_are_asked_for_than_can_be_used() -> None:
    def asks(vocab: int, **values: int) -> int:
        search = BeamSearch(SearchOptions(return_scores=True, **values), 1, EOS, vocab)
        forward = GivenScores(np.log(np.full((1, vocab), 1 / vocab, np.float32)))
        search.step(search.begin(asked(0), np.zeros(1, np.int32)), forward)
        return forward.k

    assert asks(9, beam_size=9) == 9
    assert asks(90, beam_size=4) == 8
    assert asks(90, beam_size=4, min_length=1) == 9  # eos may be banned
    assert asks(90, beam_size=1) == 1
    assert asks(90, beam_size=4, max_children=3) == 3


def test_a_live_row_that_only_equals_the_worst_finished_one_stops() -> None:
    def row(**log_probs: float) -> np.ndarray:
        return np.array([log_probs.get(name, -9.0) for name in ("pad", "bos", "eos", "a", "b")], np.float32)

    steps = {(): row(a=-1.0, eos=-1.5, b=-2.0), (3,): row(eos=-2.0, a=-2.0), (4,): row()}
    steps[3, 3] = row(eos=-0.0)  # would end with -3 / 3, the best of all
    options = SearchOptions(return_scores=True, beam_size=2, num_hypotheses=2, early_stopping="false", max_length=9)
    outcome = scripted({0: steps}, options, 5)
    assert [(h.tokens, h.score) for h in outcome[0]] == [((), -1.5), ((3,), -1.5)]


def test_the_tree_outgrows_its_first_capacity() -> None:
    """8 rows for 300 steps are more nodes than the tree begins with."""
    options = SearchOptions(return_scores=True, beam_size=8, max_length=300)
    model = ToyModel(3, eos_bias=-100.0)
    output_layer = ToyLayer(*model.output())
    requests = toy_requests(2, 3)
    together = run(model, output_layer, requests, options, batch_tokens=1)
    for request in requests:
        alone = run(model, output_layer, [request], options, batch_tokens=1)
        assert together[request.index] == alone[request.index]
        assert len(alone[request.index][0].tokens) == 300
