"""Confidence of words and sentences: the probability that a word of a translation is one of the reference's.

It is a logistic function of the square root of the negative log probability of the word, which is the sum of its
pieces', of the logarithm of the number of words, and of their product: references of long sentences say more in other
words, where a sure word is less sure. The numbers are from `python -m bench decode.confidence`; docs/lab/guards.md says
on which text, and how well they hold for other text and models.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sharpbeam.contract.words import piece_ranges, word_attention, words
from sharpbeam.decoding.results import Answer, Translation

CERTAIN, SLOPE, LENGTH, BOTH = 3.848, 3.477, 0.873, 0.530
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
    root, many = math.sqrt(max(0.0, -log_prob)), math.log(min(max(1, length), LONGEST))
    return 1.0 / (1.0 + math.exp(SLOPE * root + LENGTH * many - BOTH * root * many - CERTAIN))


def word_log_probs(answer: Answer) -> list[tuple[int, int, float]]:
    """The ranges of the words of an answer, without signs, and the log probability of the pieces of each."""
    ranges = piece_ranges(answer.tokens, answer.text)
    starts, ends = ([place[side] for place in ranges] for side in (0, 1))
    own = [(start, end) for start, end in words(answer.text) if answer.text[start].isalnum()]
    parts = [slice(bisect_right(ends, start), bisect_left(starts, end)) for start, end in own]
    return [(*word, sum(answer.token_scores[part])) for word, part in zip(own, parts, strict=True)]


def word_confidences(answer: Answer) -> list[Word]:
    """The words of an answer, without signs."""
    own = word_log_probs(answer)
    return [Word(start, end, confidence(log_prob, len(own))) for start, end, log_prob in own]


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
    best = [int(rows[word.start, word.end].argmax()) if columns else -1 for word in own]
    aligned = [replace(one, sources=(numbers[at],) if at in numbers else ()) for one, at in zip(own, best, strict=True)]
    return aligned, [attention.source[column] for column in columns]
