"""Alternatives: the likeliest tokens after the prefix, each completed as a search that begins with it would."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.beam import Beam, continuations, reference_search
from support.toys import EOS, ToyLayer, ToyModel, toy_loaded, toy_requests, toy_texts
from unit.search.test_beam import toy_log_probs
from unit.search.test_prefix import with_prefixes

from sharpbeam import MachineOptions, OptionError, Translator
from sharpbeam.decoding.inputs import Prefixes
from sharpbeam.decoding.loading import LoadedModel
from sharpbeam.decoding.results import Answer, Translation
from sharpbeam.decoding.session import Session
from sharpbeam.options.decode import DecodeOptions, ScheduleOptions, SearchOptions
from sharpbeam.options.search import LONGEST
from sharpbeam.types import Request


def run(model: ToyModel, output_layer: ToyLayer, requests: list[Request], options: SearchOptions, schedule: str):
    loaded, plan = toy_loaded(model, output_layer), ScheduleOptions(schedule=schedule, max_rows=20)
    prefixes = [None if r.prefix is None else " ".join(map(str, r.prefix.token.tolist())) for r in requests]
    texts = toy_texts(requests)
    answers = decode(loaded, texts, DecodeOptions(search=options, schedule=plan), prefixes)
    return {request.index: answer.hypotheses for request, answer in zip(requests, answers, strict=True)}


def decode(loaded: LoadedModel, texts: list[str], options: DecodeOptions, prefixes: Prefixes) -> list[Translation]:
    with Session[Translation](loaded, options) as session:
        handles = session.submit_all(texts, target_prefix=prefixes)
        session.seal()
        return [handle.result() for handle in handles]


def ids(answer: Answer) -> tuple[int, ...]:
    return tuple(map(int, answer.tokens))


def reference(log_probs, options: SearchOptions, prefix: tuple[int, ...]) -> list[tuple[tuple[int, ...], float, float]]:
    """Tokens, log probability and score of each alternative."""
    no_eos = replace(options, min_length=options.max_length, max_length=options.max_length + 1)
    words = continuations(Beam(prefix, (0.0,) * len(prefix), 0.0), log_probs, no_eos, EOS, ())[: options.num_hypotheses]
    lowest = options.min_alternative_expansion_prob
    words = [w for i, w in enumerate(words) if i == 0 or np.exp(w.log_probs[-1]) >= lowest]
    outcomes = []
    one = options.for_one_answer()
    for word in words:
        (best,) = reference_search(log_probs, one, EOS, word.tokens, last=word.log_probs[-1])
        outcomes.append((tuple(token for token in best.tokens if token != EOS), best.total, best.score))
    return outcomes


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    answers=st.sampled_from([1, 3, 7]),
    beam_size=st.sampled_from([1, 3]),
    schedule=st.sampled_from(["batches", "stream"]),
    lowest=st.sampled_from([0.0, 0.05, 0.9]),
    ngram=st.sampled_from([0, 1]),
)
def test_equals_the_reference(seed, answers, beam_size, schedule, lowest, ngram) -> None:
    model = ToyModel(seed, eos_bias=1.0, scale=1.0)
    output_layer = ToyLayer(*model.output())
    options = SearchOptions(
        beam_size=beam_size,
        num_hypotheses=answers,
        return_alternatives=True,
        min_alternative_expansion_prob=lowest,
        no_repeat_ngram_size=ngram,
        max_length=7,
    )
    requests = [r for r in with_prefixes(toy_requests(7, seed), seed, 6) if len(r.source) > 1]
    outcomes = run(model, output_layer, random.Random(seed).sample(requests, len(requests)), options, schedule)
    assert len(outcomes) == len(requests)
    for request in requests:
        prefix = tuple(request.prefix.token.tolist()) if request.prefix else ()
        expected = reference(toy_log_probs(model, output_layer, request), options, prefix)
        assert [ids(h) for h in outcomes[request.index]] == [tokens for tokens, _, _ in expected]
        for hypothesis, (_, log_prob, score) in zip(outcomes[request.index], expected, strict=True):
            assert hypothesis.log_prob == pytest.approx(log_prob) and hypothesis.score == pytest.approx(score)
        at = [ids(hypothesis)[len(prefix)] for hypothesis in outcomes[request.index]]
        assert len(set(at)) == len(at)


def test_where_no_word_is_allowed_the_prefix_is_the_answer() -> None:
    model = ToyModel(3, vocab=5)
    loaded = toy_loaded(model, ToyLayer(*model.output()))
    search = SearchOptions(
        return_alternatives=True, num_hypotheses=3, beam_size=2, no_repeat_ngram_size=1, max_length=9
    )
    (answer,) = decode(loaded, ["3 4"], DecodeOptions(search=search), "0 1 3 4")
    assert [h.text for h in answer.hypotheses] == ["0 1 3 4"]


def test_translator_says_the_same_however_it_is_asked(tiny_model, sentences: list[str]) -> None:
    texts = [*sentences[:8], ""]
    options = {"return_alternatives": True, "num_hypotheses": 7, "max_length": 12}
    translator = Translator(tiny_model)
    expected = translator.translate(texts, target_prefix="Bade", **options)
    assert [len(translation.hypotheses) for translation in expected] == [7] * 8 + [1]
    assert len({hypothesis.text for hypothesis in expected[0].hypotheses}) == 7
    threads = Translator(tiny_model, machine=MachineOptions(threads=3))
    outcomes = threads.translate(texts[::-1], target_prefix="Bade", schedule="stream", max_rows=9, **options)
    assert outcomes[::-1] == expected
    sampled = translator.translate(texts, sampling=True, seed=3, **options)
    assert sampled[1:2] == translator.translate(texts[1:2], sampling=True, seed=3, **options)


@pytest.mark.parametrize(
    "values",
    [{"min_alternative_expansion_prob": 0.1}, {"min_alternative_expansion_prob": 1.0, "return_alternatives": True}],
)
def test_wrong_values_are_named(values: dict) -> None:
    with pytest.raises(OptionError, match="min_alternative_expansion_prob is"):
        DecodeOptions.of(**values)


def test_alternatives_of_the_longest_answers(tiny_model, sentences: list[str]) -> None:
    translator = Translator(tiny_model)
    options = {"return_alternatives": True, "num_hypotheses": 2, "max_length": LONGEST}
    (outcomes,) = translator.translate(sentences[:1], target_prefix="Bade", early_stopping=True, **options)
    assert len({answer.text for answer in outcomes.hypotheses}) == 2
