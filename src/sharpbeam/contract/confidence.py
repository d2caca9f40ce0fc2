"""Confidence of words and sentences: the probability that a word of a translation is one of the reference's.

It is a logistic function of the square root of the negative log probability of the word, which is the sum of its
pieces', and of the logarithm of the number of words: references of long sentences say more in other words. The numbers
are fitted on Tatoeba and FLORES with Firefox's models; docs/lab/guards.md says how well they hold for other text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sharpbeam.contract.words import piece_ranges, word_attention, words
from sharpbeam.decoding.results import Answer, Translation

CERTAIN, SLOPE, LENGTH = 2.698, 2.584, 0.352
LONGEST = 30  # words of a sentence that count
UNSURE = 0.35  # confidence below which a word is unsure


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a translation."""

    start: int  # its range of characters
    end: int
    confidence: float  # between 0 and 1
    sources: tuple[int, ...] = ()  # which words of the source it is from


def confidence(log_prob: float, length: int) -> float:
    """The confidence of a word whose pieces have `log_prob` in total, in a sentence of `length` words."""
    exponent = SLOPE * math.sqrt(max(0.0, -log_prob)) + LENGTH * math.log(min(max(1, length), LONGEST))
    return 1.0 / (1.0 + math.exp(exponent - CERTAIN))


def word_confidences(answer: Answer) -> list[Word]:
    """The words of an answer, without signs."""
    text, rated = answer.text, list[Word]()
    pieces = list(zip(piece_ranges(answer.tokens, text), answer.token_scores, strict=False))
    own = [word for word in words(text) if text[word[0]].isalnum()]
    at = 0
    for start, end in own:
        while at < len(pieces) and pieces[at][0][1] <= start:
            at += 1
        log_prob, piece = 0.0, at
        while piece < len(pieces) and pieces[piece][0][0] < end:
            log_prob += pieces[piece][1]
            piece += 1
        rated.append(Word(start, end, confidence(log_prob, len(own))))
    return rated


def mean_confidence(own: Sequence[Word]) -> float:
    """The confidence of a sentence: the mean over its words; 1 where there are none."""
    return sum(word.confidence for word in own) / len(own) if own else 1.0


def aligned_words(source: str, translation: Translation) -> tuple[list[Word], list[tuple[int, int]]]:
    """The words of the best answer to `source`, and ranges of those of the source, where they are from any."""
    own = word_confidences(translation.hypotheses[0])
    if translation.attention is None:
        return own, []
    attention = word_attention(source, translation.text, translation)
    rows = dict(zip(attention.target, attention.weights, strict=True))
    columns = [column for column, (start, _) in enumerate(attention.source) if source[start].isalnum()]
    numbers = {column: number for number, column in enumerate(columns)}
    aligned = []
    for word in own:
        best = int(rows[word.start, word.end].argmax()) if columns else -1
        aligned.append(replace(word, sources=(numbers[best],) if best in numbers else ()))
    return aligned, [attention.source[column] for column in columns]
