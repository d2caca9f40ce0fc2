"""Answers of lines of several sentences, and of none: scores and attention are those of their tokens."""

from __future__ import annotations

from support.decoders import answer, run

from sharpbeam import Translator
from sharpbeam.contract.lines import line_steps
from sharpbeam.contract.sentences import Contract
from sharpbeam.decoding.results import Translation


def test_scores_are_those_of_the_tokens_where_a_sentence_has_none() -> None:
    def decode(source: str) -> Translation:
        return answer(source, "" if source.startswith("Bb") else source)

    best = run(line_steps("Aa cc. Bb. Dd", Contract(attention=True)), decode).hypotheses[0]
    assert best.tokens == ("▁Aa", "▁cc.", "▁Dd")
    assert best.token_scores == (-0.1, -0.2, -0.1, -0.1) and len(best.attention or ()) == 4


def test_an_answer_without_words_has_attention_where_it_is_asked_for(tiny_model: str) -> None:
    for text in ("", "123"):
        for asked in (False, True):
            answered = Translator(tiny_model).translate([text], return_attention=asked)[0].hypotheses[0]
            assert (answered.attention is not None) == asked
