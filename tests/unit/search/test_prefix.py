"""Prefixes: every hypothesis begins with its request's, whatever else is in flight."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.beam import reference_search
from support.toys import BOS, EOS, ToyLayer, ToyModel, toy_requests
from unit.search.test_beam import assert_equal, toy_log_probs

from sharpbeam import InputError, Translator
from sharpbeam.decoding.loop import decode
from sharpbeam.options.decode import ScheduleOptions, SearchOptions
from sharpbeam.scheduling.plan import Plan
from sharpbeam.search.beam import BeamSearch
from sharpbeam.types import Prefix, Request


def with_prefixes(requests: list[Request], seed: int, longest: int) -> list[Request]:
    """Most of them with a random prefix of up to `longest` words."""
    draw = np.random.default_rng(seed)
    prefixes = [draw.integers(3, 20, draw.integers(0, longest + 1)).astype(np.int32) for _ in requests]
    made = [Prefix(tokens, np.zeros(len(tokens), np.float32)) if len(tokens) else None for tokens in prefixes]
    return [replace(request, prefix=prefix) for request, prefix in zip(requests, made, strict=True)]


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    beam_size=st.sampled_from([1, 2, 4]),
    schedule=st.sampled_from(["batches", "stream", "stream-shortest"]),
    early_stopping=st.sampled_from(["true", "false", "proven"]),
    length_penalty=st.sampled_from([0.0, 1.0]),
    min_length=st.sampled_from([0, 2, 5]),
    max_children=st.sampled_from([None, 1]),
    max_score_margin=st.sampled_from([None, 0.5]),
)
def test_equals_the_reference(seed, beam_size, schedule, **values) -> None:
    model = ToyModel(seed, eos_bias=1.0)
    output_layer = ToyLayer(*model.output(), steps=4 * (seed % 2))
    options = SearchOptions(return_scores=True, beam_size=beam_size, num_hypotheses=beam_size, max_length=7, **values)
    requests = with_prefixes(toy_requests(6, seed), seed, 6)
    shuffled = random.Random(seed).sample(requests, len(requests))
    search = BeamSearch(options, BOS, EOS, output_layer.vocab_size)
    plan = Plan(shuffled, ScheduleOptions(schedule=schedule, max_rows=2 * beam_size), beam_size, 1)
    results = dict(decode(model.open(), output_layer, search, plan.schedule()))
    for request in requests:
        prefix = tuple(request.prefix.token.tolist()) if request.prefix else ()
        expected = reference_search(toy_log_probs(model, output_layer, request), options, EOS, prefix)
        assert_equal(results[request.index], expected, options)
        assert all(hypothesis.tokens[: len(prefix)] == prefix for hypothesis in results[request.index])


def test_the_beginning_of_the_greedy_answer_changes_nothing() -> None:
    model = ToyModel(4, eos_bias=1.0)
    output_layer = ToyLayer(*model.output())
    options = SearchOptions(return_scores=True, beam_size=1, max_length=12, length_penalty=0.0)

    def run(requests: list[Request]):
        search = BeamSearch(options, BOS, EOS, output_layer.vocab_size)
        return dict(decode(model.open(), output_layer, search, Plan(requests, ScheduleOptions(), 1, 1).schedule()))

    requests = toy_requests(8, 4)
    expected = run(requests)
    beginnings = {i: np.array(results[0].tokens[:2], np.int32) for i, results in expected.items()}
    assert sum(len(tokens) == 2 for tokens in beginnings.values()) > 3
    prefixed = [replace(r, prefix=Prefix(beginnings[r.index], np.zeros(2, np.float32))) for r in requests]
    for index, (results,) in run(prefixed).items():
        (greedy,) = expected[index]
        assert results.tokens == greedy.tokens
        forced = len(beginnings[index])
        assert results.token_log_probs == (0.0,) * forced + greedy.token_log_probs[forced:]
        assert results.score == results.log_prob == sum(results.token_log_probs)


def test_one_prefix_for_all_and_none_for_some(tiny_model, sentences: list[str]) -> None:
    translator = Translator(tiny_model)
    for translation in translator.translate(sentences[:5], target_prefix="Bade ki", num_hypotheses=3, max_length=30):
        assert all(hypothesis.text.startswith("Bade ki") for hypothesis in translation.hypotheses)
    plain = translator.translate(sentences[:2], max_length=30)
    assert translator.translate(sentences[:2], target_prefix=[None, ""], max_length=30) == plain
    assert translator.translate([" "], target_prefix="Bade")[0].text == ""


def test_prefixes_that_do_not_fit_are_named(tiny_model) -> None:
    translator = Translator(tiny_model)
    with pytest.raises(InputError, match="there are 1 target prefixes for 2 texts"):
        translator.translate_iter(["Ba.", "De."], target_prefix=["Ba"])
    with pytest.raises(InputError, match=r"target prefix 1 has \d+ tokens; it must have fewer than max_length \(3\)"):
        translator.translate_iter(["Ba.", "De."], target_prefix=[None, "ba de ki lomu"], max_length=3)
    with pytest.raises(InputError, match="target prefix 0 is 3"):
        translator.translate_iter(["Ba."], target_prefix=[3])
    with pytest.raises(InputError, match="target_prefix is 3"):
        translator.translate_iter(["Ba."], target_prefix=3)
