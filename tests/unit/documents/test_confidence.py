"""Confidence of words and sentences."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sharpbeam.decoding.results import EMPTY
from sharpbeam.documents.confidence import sentence_confidence, word_confidences


def test_a_word_has_the_probability_of_all_its_pieces() -> None:
    answer = replace(
        EMPTY,
        text="Guten Tag, Welt!",
        tokens=("▁Gut", "en", "▁Tag", ",", "▁Welt", "!"),
        token_scores=(-0.04, -0.05, 0.0, -9.0, -1.0, -9.0, -0.1),
    )
    result = word_confidences(answer)
    assert [answer.text[word.start : word.end] for word in result] == ["Guten", "Tag", "Welt"]
    # 1 / (1 + exp(-(1.927 - 2.526 sqrt(0.09)))), and of 0 and 1
    assert [word.confidence for word in result] == pytest.approx([0.7630, 0.8729, 0.3546], abs=1e-3)
    assert sentence_confidence([answer]) == pytest.approx(0.6635, abs=1e-3)
    assert sentence_confidence([EMPTY]) == 1.0
