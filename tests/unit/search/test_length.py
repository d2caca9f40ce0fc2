"""A limit of its own for each request: as the reference with that max_length, whatever else is in the batch."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.beam import reference_search
from support.toys import EOS, ToyLayer, ToyModel, toy_requests
from unit.search.test_beam import assert_equal, run, toy_log_probs
from unit.search.test_sampling import run as sample
from unit.search.test_sampling import several

from sharpbeam import OptionError, Translator
from sharpbeam.options.decode import SamplingOptions, SearchOptions
from sharpbeam.types import Prefix


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    beam_size=st.sampled_from([1, 2, 4]),
    early_stopping=st.sampled_from(["true", "false", "never", "proven", "exhaustive"]),
    length_penalty=st.sampled_from([0.0, 1.0, -1.0]),
    rules=st.sampled_from([{}, {"min_length": 2}, {"min_length": 5}, {"forced_eos": True}, {"finishing": "stay"}]),
)
def test_equals_the_reference(seed: int, beam_size: int, rules: dict, **values) -> None:
    model = ToyModel(seed, eos_bias=-1.0)
    layer = ToyLayer(*model.output())
    options = SearchOptions(return_scores=True, beam_size=beam_size, max_length=9, **values, **rules)
    limits = (1, 3, 5, 0, 40)
    requests = [
        replace(request, max_length=limit) for request, limit in zip(toy_requests(5, seed), limits, strict=True)
    ]
    result = run(model, layer, requests, options, batch_tokens=1000)
    for request in requests:
        length = min(request.max_length, 9) if request.max_length else 9
        own = replace(options, max_length=length, min_length=min(options.min_length, length))
        if own.min_length == options.min_length:
            expected = reference_search(toy_log_probs(model, layer, request), own, EOS)
            assert_equal(result[request.index], expected, own)
        assert all(len(each.token_log_probs) <= length for each in result[request.index])


def test_a_prefix_is_not_cut() -> None:
    model = ToyModel(1, eos_bias=-9.0)
    prefix = Prefix(np.array([3, 4, 5], np.int32), np.zeros(3, np.float32))
    requests = [replace(request, prefix=prefix, max_length=2) for request in toy_requests(2, 1)]
    for answers in run(
        model, ToyLayer(*model.output()), requests, SearchOptions(return_scores=True, beam_size=2), 1000
    ).values():
        assert answers[0].tokens[:3] == (3, 4, 5)
        assert len(answers[0].token_log_probs) == 4


def test_samples_end_there() -> None:
    requests = [replace(request, max_length=2 + request.index) for request in toy_requests(3, 1)]
    result = sample(ToyModel(1, eos_bias=-99.0), requests, several(4), SamplingOptions())
    for index, answers in result.items():
        assert {len(answer.token_log_probs) for answer in answers} == {2 + index}


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("factor", [0.3, 1.0, 2.5])
def test_the_limit_follows_the_source(tiny_model: Path, sentences: list[str], beam_size: int, factor: float) -> None:
    translator = Translator(tiny_model, threads=1, beam_size=beam_size, return_scores=True)
    texts = [" ".join(sentences[:n]) for n in (1, 2, 3)]
    limits = [math.ceil(factor * (len(translator.loaded.source.encode(text)) + 1)) for text in texts]
    expected = [translator.translate([text], max_length=n, raw=True)[0] for text, n in zip(texts, limits, strict=True)]
    assert translator.translate(texts, max_length_factor=factor, raw=True) == expected
    assert [translator.translate([text], max_length_factor=factor, raw=True)[0] for text in texts] == expected
    assert factor > 0.3 or any(len(one.token_scores) == n for one, n in zip(expected, limits, strict=True))


def test_it_stays_below_max_length(tiny_model: Path, sentences: list[str]) -> None:
    translator = Translator(tiny_model, threads=1)
    expected = translator.translate(sentences[:2], max_length=3)
    assert translator.translate(sentences[:2], max_length=3, max_length_factor=50) == expected
    with pytest.raises(OptionError, match=r"max_length_factor is 0\.0; it must be above 0"):
        translator.translate(sentences[:2], max_length_factor=0)
