"""Against repetition: the answers of a search over whole vocabularies, though the output layer gives a few words
only.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.beam import reference_search, repeats
from support.toys import BOS, EOS, GivenScores, ToyLayer, ToyModel, asked, step, toy_requests
from unit.search.test_beam import Table, assert_equal, scripted, toy_log_probs
from unit.search.test_prefix import with_prefixes
from unit.search.test_sampling import run as sample

from sharpbeam import OptionError
from sharpbeam.decoding.loop import decode
from sharpbeam.options.decode import SamplingOptions, ScheduleOptions, SearchOptions
from sharpbeam.scheduling.plan import Plan
from sharpbeam.search.beam import BeamSearch

RULES: list[dict[str, Any]] = [
    {"repetition_penalty": 1.3},
    {"repetition_penalty": 50.0},
    {"no_repeat_ngram_size": 1},
    {"no_repeat_ngram_size": 2},
    {"no_repeat_ngram_size": 3},
    {"repetition_penalty": 1.1, "no_repeat_ngram_size": 2},
]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    rules=st.sampled_from(RULES),
    beam_size=st.sampled_from([1, 2, 4]),
    schedule=st.sampled_from(["batches", "stream", "stream-shortest"]),
    early_stopping=st.sampled_from(["false", "proven"]),
    length_penalty=st.sampled_from([0.0, 1.0]),
    min_length=st.sampled_from([0, 4]),
    max_children=st.sampled_from([None, 2]),
    forced_eos=st.booleans(),
)
def test_equals_the_reference(seed, rules, beam_size, schedule, **values) -> None:
    model = ToyModel(seed, vocab=9, eos_bias=-1.0, scale=0.7)  # a small vocabulary, so that much is repeated
    output_layer = ToyLayer(*model.output(), steps=4 * (seed % 2))
    options = SearchOptions(
        return_scores=True, beam_size=beam_size, num_hypotheses=beam_size, max_length=9, **rules, **values
    )
    requests = toy_requests(4, seed)
    shuffled = random.Random(seed).sample(requests, len(requests))
    search = BeamSearch(options, BOS, EOS, output_layer.vocab_size)
    plan = Plan(shuffled, ScheduleOptions(schedule=schedule, max_rows=2 * beam_size), beam_size, 1)
    results = dict(decode(model.open(), output_layer, search, plan.schedule()))
    for request in requests:
        expected = reference_search(toy_log_probs(model, output_layer, request), options, EOS)
        assert_equal(results[request.index], expected, options)


def test_prefixes_are_forced_but_not_repeated() -> None:
    model = ToyModel(3, vocab=20, eos_bias=-3.0, scale=0.7)
    output_layer = ToyLayer(*model.output())
    options = SearchOptions(return_scores=True, beam_size=3, num_hypotheses=3, max_length=10, no_repeat_ngram_size=1)
    requests = with_prefixes(toy_requests(8, 3), 3, 4)
    search = BeamSearch(options, BOS, EOS, output_layer.vocab_size)
    for index, hypotheses in decode(
        model.open(), output_layer, search, Plan(requests, ScheduleOptions(), 3, 1).schedule()
    ):
        prefix = tuple(requests[index].prefix.token.tolist()) if requests[index].prefix else ()
        expected = reference_search(toy_log_probs(model, output_layer, requests[index]), options, EOS, prefix)
        assert_equal(hypotheses, expected, options)
        for hypothesis in hypotheses:
            generated = hypothesis.tokens[len(prefix) :]
            assert len(set(generated)) == len(generated) and not set(generated) & set(prefix)


def test_no_more_tokens_are_asked_for_than_may_get_worse() -> None:
    def asks(options: SearchOptions, *tokens: int) -> int:
        search = BeamSearch(options, BOS, EOS, 100)
        rows = search.begin(asked(0), np.zeros(1, np.int32))
        for token in tokens:
            log_prob = np.full((1, 100), -9.0, np.float32)
            log_prob[0, token] = -0.1
            rows = step(search, rows, log_prob).rows.select(np.array([0]))
        forward = GivenScores(np.full((1, 100), -9.0, np.float32))
        search.step(rows, forward)
        return forward.k - 2 * options.beam_size

    assert asks(SearchOptions(return_scores=True, beam_size=2), 5, 6, 5) == 0
    assert asks(SearchOptions(return_scores=True, beam_size=2, repetition_penalty=1.5), 5, 6, 5) == 2
    assert asks(SearchOptions(return_scores=True, beam_size=2, no_repeat_ngram_size=2), 5, 6, 5) == 1
    assert asks(SearchOptions(return_scores=True, beam_size=2, no_repeat_ngram_size=3), 5, 6, 5) == 0
    assert asks(SearchOptions(return_scores=True, beam_size=2, no_repeat_ngram_size=3), 5, 6, 7, 5, 6) == 1
    assert asks(SearchOptions(return_scores=True, beam_size=2, no_repeat_ngram_size=4), 5, 6) == 0


def test_where_nothing_is_allowed_the_answer_ends() -> None:
    """Of four words, three without eos, each may be there once."""
    options = SearchOptions(return_scores=True, beam_size=2, no_repeat_ngram_size=1, min_length=8, max_length=9)
    table = Table(1, 4, 1000, 0.0, 0.0)
    results = scripted({0: table}, options, 4)
    assert sorted(results[0][0].tokens) == [0, 1, 3]


def test_the_penalty_makes_no_token_likelier_where_logits_stand_for_log_probabilities() -> None:
    search = BeamSearch(SearchOptions(return_scores=True, beam_size=1, repetition_penalty=2.0), BOS, EOS, 9)
    rows = search.begin(asked(0), np.zeros(1, np.int32))
    logit = np.zeros((1, 9), np.float32)
    logit[0, [5, 6]] = 8.0, 6.0
    chosen = []
    for _ in range(2):
        rows = step(search, rows, logit).rows
        chosen.append((int(rows.token[0]), float(rows.score[0])))
    assert chosen == [(5, 8.0), (6, 14.0)]


@pytest.mark.parametrize("rules", RULES)
def test_rules_apply_to_samples(rules: dict[str, Any]) -> None:
    model = ToyModel(5, vocab=9, eos_bias=-1.0, scale=0.7)
    options = SearchOptions(return_scores=True, sampling=True, num_hypotheses=6, max_length=9, **rules)
    plain = SearchOptions(return_scores=True, sampling=True, num_hypotheses=6, max_length=9)
    requests = toy_requests(6, 5)
    ngram = rules.get("no_repeat_ngram_size", 0)
    for sampling in (SamplingOptions(), SamplingOptions(top_k=3)):
        results = sample(model, requests, options, sampling)
        assert results != sample(model, requests, plain, sampling)
        for hypotheses in results.values():
            for hypothesis in hypotheses:
                assert not any(repeats(hypothesis.tokens[: i + 1], ngram) for i in range(len(hypothesis.tokens)))
        assert sample(model, requests[::-1], options, sampling, schedule="stream", max_rows=12) == results


@pytest.mark.parametrize("values", [{"repetition_penalty": 0.9}, {"no_repeat_ngram_size": -1}])
def test_wrong_values_are_named(values: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=f"{next(iter(values))} is .*; it must be"):
        SearchOptions(return_scores=True, **values)
