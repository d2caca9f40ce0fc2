"""Phrases that answers have to contain: as the reference, in every answer, and without effect on other requests."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from fuzz.search_cases import TableModel
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.beam import Beam
from reference.phrases import places, progress_of, reference_phrases
from support.toys import BOS, EOS, ToyLayer, ToyModel, best, toy_requests
from unit.search.test_beam import run, toy_log_probs

from sharpbeam.decoding.loop import decode
from sharpbeam.options.decode import ScheduleOptions, SearchOptions
from sharpbeam.scheduling.plan import Plan
from sharpbeam.search.beam import BeamSearch
from sharpbeam.types import Floats, Hypothesis, Phrases, Prefix, Request, TopK


def random_phrases(draw: random.Random, vocab: int, most: int = 2) -> Phrases:
    """Some of two or three tokens, so that they share beginnings; some with several forms."""
    letters = draw.sample(range(3, vocab), 3)
    form = lambda: tuple(draw.choice(letters) for _ in range(draw.choice([1, 2, 2, 3])))  # noqa: E731
    return tuple(tuple(form() for _ in range(draw.choice([1, 1, 2]))) for _ in range(draw.randrange(most + 1)))


def assert_same(results: list[Hypothesis], expected: list[Beam], options: SearchOptions) -> None:
    assert [hypothesis.tokens for hypothesis in results] == [
        tuple(t for t in beam.tokens if t != EOS) for beam in expected
    ]
    assert [hypothesis.token_log_probs for hypothesis in results] == [beam.log_probs for beam in expected]
    assert [hypothesis.score for hypothesis in results] == pytest.approx([beam.score for beam in expected], rel=1e-12)


def lacking(hypothesis: Hypothesis, phrases: Phrases) -> int:
    """How many tokens of phrases a hypothesis lacks."""
    return sum(max(map(len, forms)) for forms in phrases) - progress_of(hypothesis.tokens, phrases).tokens(phrases)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    beam_size=st.sampled_from([1, 2, 4]),
    schedule=st.sampled_from(["batches", "stream", "stream-shortest"]),
    early_stopping=st.sampled_from(["true", "false", "never", "proven", "exhaustive"]),
    length_penalty=st.sampled_from([0.0, 1.0]),
    max_length=st.sampled_from([4, 9]),
    prefixes=st.booleans(),
    rules=st.sampled_from(
        [
            {},
            {"min_length": 3},
            {"max_children": 1},
            {"max_score_margin": 0.5},
            {"max_score_ratio": 1.5},
            {"stop_margin": 1.0},
            {"repetition_penalty": 1.5},
            {"no_repeat_ngram_size": 2},
            {"forced_eos": True},
        ]
    ),
)
def test_equals_the_reference(seed, beam_size, schedule, max_length, prefixes, rules, **values) -> None:
    draw = random.Random(seed)
    model = ToyModel(seed, eos_bias=1.0)
    output_layer = ToyLayer(*model.output(), steps=4 * (seed % 2))
    options = SearchOptions(
        return_scores=True, beam_size=beam_size, num_hypotheses=beam_size, max_length=max_length, **values, **rules
    )
    joins = draw.sample(range(3, 20), draw.choice([0, 4, 12]))
    marks = bytes(token in joins or token == EOS for token in range(20))
    requests = [replace(each, phrases=random_phrases(draw, 20), joins=marks) for each in toy_requests(4, seed)]
    prefix = (3, 4) if prefixes else ()
    if prefix:
        given_prefix = Prefix(np.array(prefix, np.int32), np.zeros(2, np.float32))
        requests = [replace(request, prefix=given_prefix) for request in requests]
    search = BeamSearch(options, BOS, EOS, output_layer.vocab_size)
    plan = Plan(draw.sample(requests, 4), ScheduleOptions(schedule=schedule, max_rows=2 * beam_size), beam_size, 1)
    results = dict(decode(model.open(), output_layer, search, plan.schedule()))
    for request in requests:
        if request.phrases:
            after = toy_log_probs(model, output_layer, request)
            expected = reference_phrases(after, options, EOS, request.phrases, prefix, joins)
            assert_same(results[request.index], expected, options)


def test_long_phrases_equal_the_reference() -> None:
    """More banks than a row has candidates, and eos is banned among these."""
    for seed in range(30):
        model = ToyModel(seed, vocab=30, eos_bias=3.0)
        phrases = tuple((tuple(random.Random(seed + n).sample(range(3, 30), 4)),) for n in (0, 100, 200))
        options = SearchOptions(return_scores=True, beam_size=1, min_length=9, max_length=14)
        request = replace(toy_requests(1, seed)[0], phrases=phrases)
        output_layer = ToyLayer(*model.output())
        expected = reference_phrases(toy_log_probs(model, output_layer, request), options, EOS, phrases)
        assert_same(run(model, output_layer, [request], options, 1000)[0], expected, options)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), beam_size=st.sampled_from([1, 2, 5]), impossible=st.sampled_from([0.0, 0.6]))
def test_every_answer_has_its_phrases(seed: int, beam_size: int, impossible: float) -> None:
    draw = random.Random(seed)
    model = TableModel(seed, 1000, 3.0, impossible)  # hypotheses end soon, and some tokens never follow
    requests = [
        Request(n, np.array([draw.randrange(3, 64), EOS], np.int32), phrases=random_phrases(draw, 11, most=4))
        for n in range(6)
    ]
    options = SearchOptions(return_scores=True, beam_size=beam_size, num_hypotheses=beam_size, max_length=40)
    plan = Plan(requests, ScheduleOptions(), beam_size, 1)
    results = dict(decode(model, model, BeamSearch(options, BOS, EOS, model.vocab_size), plan.schedule()))
    for request in requests:
        assert 1 <= len(results[request.index]) <= beam_size
        for hypothesis in results[request.index]:
            assert not lacking(hypothesis, request.phrases)
            if impossible:
                continue
            after = model.next_log_probs(request)
            tokens = (*hypothesis.tokens, EOS)
            messages = tuple(float(after(tokens[:n])[tokens[n]]) for n in range(len(hypothesis.token_log_probs)))
            assert hypothesis.token_log_probs == messages


def test_where_the_answer_is_too_short_it_has_most_of_them() -> None:
    model = ToyModel(3, eos_bias=-1.0)
    output_layer = ToyLayer(*model.output())
    request = replace(toy_requests(1, 3)[0], phrases=(((5, 6, 7),), ((8,),)))
    for max_length, lost in ((1, 3), (2, 2), (3, 1), (4, 0), (9, 0)):
        options = SearchOptions(return_scores=True, beam_size=3, max_length=max_length)
        (answer,) = run(model, output_layer, [request], options, 1000)[0]
        assert lacking(answer, request.phrases) == lost


class FewLayer(ToyLayer):
    """Finds three tokens, none of them 0, and fills rows up with token 0 at -inf, as a screen's set does."""

    def topk(self, hidden: Floats, k: int) -> TopK:
        every = self.all(hidden)
        every[:, 0] = -np.inf
        found = best(every, k)
        found.log_prob[:, 3:], found.token[:, 3:] = -np.inf, 0
        return found


def test_what_fills_a_row_up_is_not_the_phrase_that_it_lacks() -> None:
    model = ToyModel(3, eos_bias=-1.0)
    request = replace(toy_requests(1, 3)[0], phrases=(((0,),),))
    options = SearchOptions(return_scores=True, beam_size=3, max_length=5)
    (answer,) = run(model, FewLayer(*model.output()), [request], options, 1000)[0]
    after = toy_log_probs(model, ToyLayer(*model.output()), request)
    at = answer.tokens.index(0)
    assert answer.token_log_probs[at] == pytest.approx(after(answer.tokens[:at])[0], abs=1e-5)


def test_a_request_without_phrases_does_not_see_those_of_others() -> None:
    for beam_size in (1, 2, 5):
        options = SearchOptions(return_scores=True, beam_size=beam_size, num_hypotheses=beam_size, max_length=12)
        model = ToyModel(beam_size, eos_bias=0.5)
        output_layer = ToyLayer(*model.output(), steps=4)
        requests = toy_requests(8, beam_size)
        alone = run(model, output_layer, requests, options, 1000)
        some = [replace(r, phrases=(((4, 5),),)) if r.index % 2 else r for r in requests]
        mixed = run(model, output_layer, some, options, 1000)
        assert all(mixed[r.index] == alone[r.index] for r in requests if not r.index % 2)
        assert any(mixed[r.index] != alone[r.index] for r in requests if r.index % 2)


@pytest.mark.parametrize(
    ("tokens", "phrases", "expected"),
    [
        ((5, 5, 6), (((5, 6),),), 2),  # the first 5 is taken back, the second begins again
        ((5, 7), (((5, 6),), ((5, 7),)), 2),  # which of two was begun shows later
        ((5, 6, 5), (((5,),), ((6, 5),)), 3),
        ((5, 6), (((5, 6),), ((6, 7),)), 2),  # a token counts once
        ((5, 4, 5), (((5,),), ((5,),)), 2),  # twice, if it is wanted twice
        ((4, 4), (((5, 6, 7), (4,)),), 3),  # one form is enough
    ],
)
def test_progress(tokens: tuple[int, ...], phrases: Phrases, expected: int) -> None:
    assert progress_of(tokens, phrases).tokens(phrases) == expected


@given(st.integers(1, 20), st.lists(st.integers(0, 9), min_size=1, max_size=8))
def test_a_beam_is_divided_among_banks(width: int, candidates: list[int]) -> None:
    results = places(width, candidates)
    assert sum(results) == width
    if sum(candidates) >= width >= len(candidates):
        assert all(place >= 1 for place, there in zip(results, candidates, strict=True) if there)


def test_the_first_and_the_last_of_many_banks_have_a_place() -> None:
    assert places(16, [1] * 17)[0] == places(16, [1] * 17)[-1] == 1
    assert places(4, [9] * 10) == [1, 0, 0, 1, 0, 0, 1, 0, 0, 1]


def test_phrases_that_cannot_be_are_refused() -> None:
    search = BeamSearch(SearchOptions(return_scores=True), BOS, EOS, 20)
    state = np.zeros(1, np.int32)
    for phrases, messages in (
        ((((20,),),), "from 0 to 19"),
        ((((EOS,),),), "not eos"),
        ((((),),), "no tokens"),
        (((),), "no forms"),
    ):
        with pytest.raises(ValueError, match=messages):
            search.begin([Request(0, np.array([EOS], np.int32), phrases=phrases)], state)
    with pytest.raises(ValueError, match="joins has 3 entries"):
        search.begin([Request(0, np.array([EOS], np.int32), phrases=(((5,),),), joins=bytes(3))], state)
