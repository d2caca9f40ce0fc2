"""A coverage penalty: what GNMT says of it, over all finished hypotheses; and who may not ask for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sharpbeam import OptionError, Translator
from sharpbeam.decoding.attention import LEAST, coverage
from sharpbeam.options.decode import SearchOptions


def test_it_is_the_sum_over_the_words_of_the_source() -> None:
    attention = np.array([[0.5, 0.25, 0.0, 0.25], [0.9, 0.05, 0.0, 0.05]], np.float32)
    expected = np.log(1.0) + np.log(np.float64(np.float32(0.25)) + np.float64(np.float32(0.05))) + np.log(LEAST)
    assert coverage(attention) == pytest.approx(expected, rel=1e-12)
    assert coverage(np.ones((3, 4), np.float32)) == 0.0
    assert coverage(np.ones((1, 1), np.float32)) == 0.0  # nothing but the end of the source


@pytest.mark.parametrize(
    "options", [{}, {"early_stopping": "proven", "length_penalty": 0.6}, {"cube_pruning": "exact"}]
)
@pytest.mark.parametrize("beta", [0.05, 5.0])
def test_the_finished_hypotheses_are_ranked_anew(tiny_model, sentences: list[str], options: dict, beta: float) -> None:
    translator, texts = Translator(tiny_model), sentences[:20]
    options = options | {"beam_size": 4, "max_length": 12}
    everything = translator.translate(texts, num_hypotheses=4, return_attention=True, **options)
    results = translator.translate(texts, num_hypotheses=2, coverage_penalty=beta, **options)
    moved = 0
    for all_, best in zip(everything, results, strict=True):
        scored = [
            replace(h, score=h.score + beta * coverage(np.array(h.attention, np.float32))) for h in all_.hypotheses
        ]
        expected = sorted(scored, key=lambda h: -h.score)[:2]
        assert best.hypotheses == tuple(replace(h, attention=None) for h in expected)
        moved += all_.hypotheses[0].tokens != expected[0].tokens
    assert moved > 0 or beta < 1
    streamed = translator.translate(texts, num_hypotheses=2, coverage_penalty=beta, schedule="stream", **options)
    assert streamed == results
    shown = translator.translate(texts[:1], coverage_penalty=beta, return_attention=True, **options)
    assert replace(shown[0].hypotheses[0], attention=None) == results[0].hypotheses[0]
    assert shown[0].attention


@pytest.mark.parametrize(("beam_size", "patience", "finished"), [(5, 0.75, 4), (3, 0.5, 2), (4, 0.9, 4), (4, 2.0, 4)])
def test_any_patience_will_do(tiny_model, sentences: list[str], beam_size: int, patience: float, finished: int) -> None:
    options = SearchOptions(coverage_penalty=0.2, beam_size=beam_size, patience=patience)
    assert options.for_coverage().num_hypotheses == finished
    translator = Translator(tiny_model, beam_size=beam_size, patience=patience)
    assert len(translator.translate(sentences[:5], coverage_penalty=0.2)) == 5


def test_what_it_cannot_go_with_is_refused_at_once(tiny_model) -> None:
    translator = Translator(tiny_model)
    for options, message in (
        ({"beam_size": 1}, "0 with beam_size 1"),
        ({"sampling": True}, "left at 0.0 with sampling"),
        ({"coverage_penalty": -1.0}, "between 0"),
    ):
        with pytest.raises(OptionError, match=message):
            translator.translate_iter(["ein Haus"], **{"coverage_penalty": 0.2} | options)
