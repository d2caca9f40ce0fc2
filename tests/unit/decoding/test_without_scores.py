"""Without scores greedy search leaves the normalizer out: the same answers, from logits."""

from __future__ import annotations

import pytest

from sharpbeam import Translator
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.options.search import SearchOptions


@pytest.mark.parametrize("layer", ["exact", "scan"])
@pytest.mark.parametrize("rules", [{}, {"no_repeat_ngram_size": 2, "min_length": 3, "max_score_margin": 1.0}])
def test_greedy_answers_stay_what_they_are(tiny_model, sentences, layer, rules):
    translator, texts = Translator(tiny_model, beam_size=1, output_layer=layer, **rules), sentences[:30]
    expected, outcome = translator.translate(texts, return_scores=True), translator.translate(texts)
    assert [one.tokens for one in outcome] == [one.tokens for one in expected]
    assert all(one.score is one.hypotheses[0].log_prob is None and one.token_scores == () for one in outcome)
    assert all(isinstance(one.score, float) and one.score < 0 for one in expected)


def test_a_prefix_and_a_session_stay_what_they_are(tiny_model, sentences):
    translator = Translator(tiny_model, beam_size=1)
    texts, prefix = sentences[:5], translator.translate(sentences[5:6])[0].text[:4]
    expected = translator.translate(texts, target_prefix=prefix, return_scores=True)
    with translator.session() as session:
        handles = session.submit_all(texts, target_prefix=prefix)
        assert len(list(session.run())) == len(texts)
    assert [handle.result().text for handle in handles] == [one.text for one in expected]


@pytest.mark.parametrize(
    "changed",
    [
        {"beam_size": 2},
        {"return_scores": True},
        {"early_stopping": "proven"},
        {"max_score_ratio": 2.0},
        {"prefix_bias_beta": 0.5},
        {"sampling": True},
        {"return_alternatives": True},
        {"return_attention": True},
    ],
)
def test_what_reads_log_probabilities_gets_them(changed):
    plain = {"beam_size": 1, "return_scores": False}
    assert not DecodeOptions.of(**plain).search.needs_log_prob
    assert SearchOptions(**(plain | changed)).needs_log_prob


@pytest.mark.parametrize("penalty", [1.3, 2.0])
def test_a_penalty_chooses_the_same_tokens_with_and_without_scores(tiny_model, sentences, penalty):
    translator = Translator(tiny_model, beam_size=1, repetition_penalty=penalty)
    expected, outcome = (translator.translate(sentences[:10], return_scores=flag) for flag in (True, False))
    assert [one.tokens for one in outcome] == [one.tokens for one in expected]
    plain = translator.translate(sentences[:10], repetition_penalty=1.0)
    assert [one.tokens for one in outcome] != [one.tokens for one in plain]
