"""Sampling: the distribution of Hugging Face's warpers, and draws that depend on nothing but seed, text and number."""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.beam import reference_greedy
from support.toys import BOS, EOS, ToyLayer, ToyModel, asked, step, toy_requests
from unit.search.test_beam import toy_log_probs

from sharpbeam import MachineOptions, OptionError, Translator
from sharpbeam.decoding.loop import decode
from sharpbeam.errors import ModelError
from sharpbeam.options.decode import DecodeOptions, SamplingOptions, ScheduleOptions, SearchOptions
from sharpbeam.scheduling.plan import Plan
from sharpbeam.search.native import SamplingSearch
from sharpbeam.types import Hypothesis, Prefix, Request, TopK


def run(model: ToyModel, requests: list[Request], options: SearchOptions, sampling: SamplingOptions, **schedule: Any):
    output_layer = ToyLayer(*model.output())
    search = SamplingSearch(options, sampling, BOS, EOS, output_layer.vocab_size)
    plan = Plan(requests, ScheduleOptions(**schedule), options.most_rows, 1)
    return dict(decode(model.open(), output_layer, search, plan.schedule()))


def log_softmax(logits: np.ndarray) -> np.ndarray:
    return logits - np.log(np.exp(logits).sum())


def several(number: int, **values: Any) -> SearchOptions:
    return SearchOptions(return_scores=True, sampling=True, num_hypotheses=number, **values)


@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.6}, {"top_k": 5}, {"top_p": 0.7}, {"top_p": 1e-9}])
@pytest.mark.parametrize("more", [{}, {"temperature": 1.7, "top_k": 7, "top_p": 0.8}])
def test_tokens_have_the_probabilities_of_the_warpers(sampling: dict, more: dict) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    options = SamplingOptions(**(more | sampling))
    logits = np.random.default_rng(3).normal(0, 1.5, (1, 12)).astype(np.float32)
    warped = torch.from_numpy(logits)
    if options.temperature != 1:
        warped = transformers.TemperatureLogitsWarper(options.temperature)(None, warped)
    if options.top_k:
        warped = transformers.TopKLogitsWarper(options.top_k)(None, warped)
    if options.top_p < 1:
        warped = transformers.TopPLogitsWarper(options.top_p)(None, warped)
    expected = warped.softmax(-1)[0].numpy()

    # With the numbers that NumPy draws: the token of a number is the one at which the sum of the probabilities, from
    # the likeliest down, exceeds it.
    draws = 5000
    request = Request(3, np.array([8, 9], np.int32))
    search = SamplingSearch(several(draws, max_length=2), replace(options, seed=11), BOS, EOS, 12)
    rows = step(search, search.begin([request], np.zeros(1, np.int32)), np.tile(log_softmax(logits), (draws, 1))).rows
    text = (2).to_bytes(8, "little") + request.source.tobytes() + (0).to_bytes(8, "little")
    key = np.array([11, int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")], np.uint64)
    counters = np.array([[0, 0, 0, number] for number in range(draws)], np.uint64)
    numbers = [np.random.Generator(np.random.Philox(key=key, counter=counter)).random() for counter in counters]
    likeliest = np.argsort(-expected, kind="stable")
    tokens = likeliest[
        np.searchsorted(expected[likeliest].cumsum(dtype=np.float64), numbers, side="right").clip(max=11)
    ]
    ended = int((tokens == EOS).sum())
    assert len(rows) == draws - ended and expected[EOS] < 0.5
    assert (rows.token != tokens[tokens != EOS]).sum() <= 1  # one where a sum is rounded to the other side of a number


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    number=st.sampled_from([1, 2, 5]),
    schedule=st.sampled_from(["batches", "stream", "stream-shortest"]),
    max_rows=st.sampled_from([1, 9, 40]),
    batch_tokens=st.sampled_from([1, 30]),
    temperature=st.sampled_from([0.5, 1.0, 2.0]),
    top_k=st.sampled_from([0, 3]),
    top_p=st.sampled_from([1.0, 0.8]),
    min_length=st.sampled_from([0, 3]),
)
def test_draws_depend_on_nothing_but_the_request(
    seed, number, schedule, max_rows, batch_tokens, min_length, **values
) -> None:
    model, requests = ToyModel(seed, eos_bias=1.0, scale=1.0), toy_requests(7, seed)
    prefix = Prefix(np.array([5, 6], np.int32), np.zeros(2, np.float32))
    requests[3] = replace(requests[3], prefix=prefix)
    sampling = SamplingOptions(seed=seed, **values)
    options = several(number, min_length=min_length, max_length=9)
    shuffled = random.Random(seed).sample(requests, len(requests))
    outcome = run(model, shuffled, options, sampling, schedule=schedule, max_rows=max_rows, batch_tokens=batch_tokens)
    assert model.opened[-1].sources == {} and model.opened[-1].states == {}
    for request in requests:
        alone = run(model, [replace(request, index=99)], options, sampling)[99]
        assert [replace(hypothesis, request=request.index) for hypothesis in alone] == outcome[request.index]
        (first,) = run(model, [request], replace(options, num_hypotheses=1), sampling)[request.index]
        assert first == outcome[request.index][0]
        assert len(outcome[request.index]) == number
    assert all(hypothesis.tokens[:2] == (5, 6) for hypothesis in outcome[3])


def test_seeds_samples_and_texts_differ() -> None:
    model, requests = ToyModel(2, eos_bias=-2.0, scale=0.3), toy_requests(4, 2)
    options = several(8, max_length=12)
    outcome = run(model, requests, options, SamplingOptions(seed=1))
    answers = [hypothesis.tokens for hypotheses in outcome.values() for hypothesis in hypotheses]
    assert len(set(answers)) == 32
    other = run(model, requests, options, SamplingOptions(seed=2))
    assert not set(answers) & {hypothesis.tokens for hypotheses in other.values() for hypothesis in hypotheses}


def test_scores_are_the_models_own() -> None:
    model, requests = ToyModel(6, eos_bias=1.0), toy_requests(5, 6)
    output_layer = ToyLayer(*model.output())
    options = several(3, length_penalty=0.5, max_length=9)
    for hypotheses in run(model, requests, options, SamplingOptions(temperature=2.0, top_p=0.9)).values():
        for hypothesis in hypotheses:
            assert_forced(model, output_layer, requests[hypothesis.request], hypothesis, options)


def assert_forced(model: ToyModel, output_layer: ToyLayer, request: Request, outcome: Hypothesis, options) -> None:
    ended = len(outcome.token_log_probs) > len(outcome.tokens)
    decoding = model.open()
    state, token = decoding.admit([request]), BOS
    for expected, log_prob in zip(outcome.tokens + (EOS,) * ended, outcome.token_log_probs, strict=True):
        hidden, state = decoding.step(np.array([request.index], np.int32), state, np.array([token], np.int32))
        assert output_layer.log_prob(hidden, np.array([expected]))[0] == np.float32(log_prob)
        token = expected
    assert outcome.log_prob == sum(outcome.token_log_probs)
    assert outcome.score == pytest.approx(outcome.log_prob / len(outcome.token_log_probs) ** options.length_penalty)


def test_one_token_to_choose_from_is_greedy() -> None:
    model = ToyModel(8, eos_bias=1.0)
    output_layer = ToyLayer(*model.output())
    for sampling in ({"top_k": 1}, {"top_p": 1e-9}, {"temperature": 1e-6}):
        for request in toy_requests(4, 8):
            (outcome,) = run(model, [request], several(1, max_length=9), SamplingOptions(**sampling))[request.index]
            greedy = reference_greedy(toy_log_probs(model, output_layer, request), several(1, max_length=9), EOS)
            assert outcome.tokens == tuple(t for t in greedy.tokens if t != EOS)


def test_a_row_without_candidates_ends_as_it_is() -> None:
    search = SamplingSearch(several(2, max_length=9), SamplingOptions(), BOS, EOS, 4)
    rows = search.begin(asked(7), np.zeros(1, np.int32))
    log_prob = np.full((2, 4), -np.inf, np.float32)
    log_prob[:, 0] = 0.0
    tokens = np.tile(np.array([3, 0, 1, 2], np.int32), (2, 1))
    rows = step(search, rows, TopK(log_prob, tokens)).rows
    log_prob[0] = -np.inf
    result = step(search, rows, TopK(log_prob, tokens))
    assert len(result.rows) == 1 and not result.finished
    log_prob[:] = -np.inf
    result = step(search, result.rows, TopK(log_prob[:1], tokens[:1]))
    assert [h.tokens for h in result.finished[7]] == [(3,), (3, 3)]
    assert search.work.requests == 1
    with pytest.raises(ModelError, match=r"request 8: after 0 tokens .* NaN"):
        step(search, search.begin(asked(8), np.zeros(1, np.int32)), TopK(log_prob * np.nan, tokens))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sampling": True, "num_hypotheses": 0}, "num_hypotheses is 0; it must be between 1 and 10000"),
        ({"sampling": True, "early_stopping": "proven"}, "early_stopping is 'proven'; .* with sampling"),
        ({"sampling": True, "max_score_margin": 1.0}, "max_score_margin is 1.0; it must be left at None with sampling"),
        ({"sampling": True, "temperature": 0.0}, "temperature is 0.0; it must be above 0"),
        ({"sampling": True, "top_k": -1}, "top_k is -1"),
        ({"sampling": True, "top_p": 1.1}, "top_p is 1.1"),
        ({"sampling": True, "seed": -1}, "seed is -1"),
        ({"temperature": 0.5}, "temperature is 0.5; it must be left at 1.0 unless sampling is chosen too"),
        ({"seed": 3}, "seed is 3"),
    ],
)
def test_options_that_do_not_go_together_are_named(values: dict, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        DecodeOptions.of(**values)


def test_translator_draws_the_same_in_any_batch(tiny_model, sentences: list[str]) -> None:
    texts = sentences[:12]
    options = {"sampling": True, "num_hypotheses": 6, "top_p": 0.9, "seed": 5, "max_length": 15}
    translator = Translator(tiny_model)
    expected = translator.translate(texts, **options)
    assert all(len(translation.hypotheses) == 6 for translation in expected)  # more than beam_size
    assert translator.translate([texts[3]], **options) == [expected[3]]
    threads = Translator(tiny_model, machine=MachineOptions(threads=3))
    assert threads.translate(texts[::-1], schedule="stream", max_rows=8, **options)[::-1] == expected
    scan = translator.translate(texts, **(options | {"output_layer": "scan"}))
    assert (
        sum(s.text == w.text for s, w in zip(scan, expected, strict=True)) > 8
    )  # its log probabilities differ a little
