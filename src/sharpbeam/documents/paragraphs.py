"""Segments to sentences and back: what is decoded for a segment, and how its translation is put together."""

from __future__ import annotations

from bisect import bisect_left

from sharpbeam.contract.answers import Piece, joined_text
from sharpbeam.contract.lines import cut_sentence
from sharpbeam.contract.words import WordAttention, count_words, word_attention
from sharpbeam.documents.segment import Segment
from sharpbeam.documents.transfer import Aligned
from sharpbeam.options.documents import DocumentOptions
from sharpbeam.text.sentences import split_sentences
from sharpbeam.text.spans import covered, find_spans

MOST_CELLS = 1 << 20  # words by words and by tags of a segment; beyond, markup is moved in order, without attention
_EACH = 16  # words: the cost of a sentence to a tag


def sentence_ranges(segment: Segment, options: DocumentOptions, language: str) -> list[tuple[int, int]]:
    """Ranges of the sentences of a segment; none ends inside of fixed text."""
    if not segment.text:
        return []
    hidden = covered(segment.text, find_spans(segment.text))  # no sentence ends in a span
    found = split_sentences(hidden, language) if options.split_sentences else [(0, len(segment.text))]
    merged: list[tuple[int, int]] = []
    fixed = [(tag.start, tag.end) for tag in segment.tags if tag.fixed]  # none is in another one
    for start, end in found:
        before = bisect_left(fixed, (start, 0)) - 1
        if merged and before >= 0 and merged[-1][1] < fixed[before][1]:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return [part for one in merged for part in cut_sentence(segment.text, *one, options.max_sentence)]


def joined(segment: Segment, pieces: list[Piece]) -> Aligned:
    """The translation of a segment; `pieces` are in order, and what is between them is copied.

    Spaces between sentences follow the script: ideographs have none, and other scripts get one.
    """
    text, ranges = joined_text(segment.text, pieces)
    if not segment.tags:  # nothing is moved
        return Aligned(text)
    places = [(piece.start, piece.end, *own) for piece, own in zip(pieces, ranges, strict=True)]
    counts = [(count_words(segment.text[start:end]), count_words(text[at:last])) for start, end, at, last in places]
    if sum((right + _EACH) * (left + len(segment.tags)) for left, right in counts) > MOST_CELLS:
        return Aligned(text, places)
    sentences = []
    for (start, end, at, last), piece in zip(places, pieces, strict=True):
        found = word_attention(segment.text[start:end], text[at:last], piece.translation)
        sentences.append(WordAttention(_moved(found.source, start), _moved(found.target, at), found.weights))
    return Aligned(text, places, sentences)


def _moved(ranges: list[tuple[int, int]], by: int) -> list[tuple[int, int]]:
    return [(start + by, end + by) for start, end in ranges]
