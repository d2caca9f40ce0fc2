"""Confidence of words and sentences."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.decoders import answer, run

from sharpbeam.contract.confidence import aligned_words, confidence, mean_confidence, word_confidences
from sharpbeam.decoding.results import EMPTY, Translation
from sharpbeam.documents import document_steps, read_document
from sharpbeam.options.documents import DocumentOptions


def test_a_word_has_the_probability_of_all_its_pieces() -> None:
    words = replace(
        EMPTY,
        text="Guten Tag, Welt!",
        tokens=("▁Gut", "en", "▁Tag", ",", "▁Welt", "!"),
        token_scores=(-0.04, -0.05, 0.0, -9.0, -1.0, -9.0, -0.1),
    )
    result = word_confidences(words)
    assert [words.text[word.start : word.end] for word in result] == ["Guten", "Tag", "Welt"]
    # 1 / (1 + exp(3.477 sqrt(0.09) + 0.873 log(3) - 0.53 sqrt(0.09) log(3) - 3.848)), and of 0 and 1
    assert [word.confidence for word in result] == pytest.approx([0.8829, 0.9473, 0.4985], abs=1e-3)
    assert mean_confidence(word_confidences(words)) == pytest.approx(0.7762, abs=1e-3)
    assert mean_confidence([]) == 1.0


def test_a_less_probable_word_is_less_sure_in_sentences_of_all_lengths() -> None:
    for length in (1, 5, 30, 200):
        assert 0.98 > confidence(-0.01, length) > confidence(-0.1, length) > confidence(-3.0, length) > 0.0


def test_longer_sentences_are_less_sure_up_to_a_length() -> None:
    assert confidence(-0.1, 5) > confidence(-0.1, 20) > confidence(-0.1, 30) == confidence(-0.1, 90)


def test_words_are_aligned_with_those_of_the_source() -> None:
    sentence = answer("Das Haus, groß!", "The big, house!", [0, 2, 1])
    own, source = aligned_words(sentence.source, sentence)
    assert [sentence.source[start:end] for start, end in source] == ["Das", "Haus", "groß"]
    assert [(sentence.text[word.start : word.end], word.sources) for word in own] == [
        ("The", (0,)),
        ("big", (2,)),
        ("house", (1,)),
    ]


def test_a_sentence_with_a_span_has_words() -> None:
    def decode(source: str) -> Translation:
        return answer(source, source.replace("ee", "eja").replace("now", "agora"))

    steps = document_steps(read_document("See https://x.y now. Stay there.", "text"), DocumentOptions(), details=True)
    first, second = run(steps, decode).sentences
    assert [first.text[word.start : word.end] for word in first.words] == ["Seja", "https", "x", "y", "agora"]
    assert [word.sources for word in first.words] == [(0,), (1,), (2,), (3,), (4,)]
    assert len(second.words) == 2
