"""Confidence of words and sentences: the probability that a word of a translation is one of the reference's.

It is a logistic function of the square root of the negative log probability of the word, which is the sum of its
pieces'. The two numbers are fitted on Tatoeba (eng-por valid) with Firefox's model; docs/lab/guards.md says how well
they hold for other text.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sharpbeam.contract.words import piece_ranges, words
from sharpbeam.decoding.results import Answer

CERTAIN, SLOPE = 1.927, 2.526


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a translation."""

    start: int  # its range of characters
    end: int
    confidence: float  # between 0 and 1


def confidence(log_prob: float) -> float:
    """The confidence of a word whose pieces have `log_prob` in total."""
    return 1.0 / (1.0 + math.exp(SLOPE * math.sqrt(max(0.0, -log_prob)) - CERTAIN))


def word_confidences(answer: Answer) -> list[Word]:
    """The words of an answer, without signs."""
    text, found = answer.text, []
    pieces = list(zip(piece_ranges(answer.tokens, text), answer.token_scores, strict=False))
    at = 0
    for start, end in words(text):
        while at < len(pieces) and pieces[at][0][1] <= start:
            at += 1
        log_prob, piece = 0.0, at
        while piece < len(pieces) and pieces[piece][0][0] < end:
            log_prob += pieces[piece][1]
            piece += 1
        if text[start].isalnum():
            found.append(Word(start, end, confidence(log_prob)))
    return found


def sentence_confidence(answers: list[Answer]) -> float:
    """The mean over the words of the answers to the parts of a sentence; 1 where there are none."""
    found = [word.confidence for answer in answers for word in word_confidences(answer)]
    return sum(found) / len(found) if found else 1.0
