"""Segments to sentences and back: what is decoded for a segment, and how its translation is put together."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from sharpbeam.contract.words import WordAttention, count_words, word_attention
from sharpbeam.decoding.results import Translation
from sharpbeam.documents.segment import Segment, is_translatable
from sharpbeam.documents.transfer import Aligned
from sharpbeam.options.documents import DocumentOptions
from sharpbeam.text.sentences import split_sentences

_SIGNS = (";", "\uff1b", "\u3002", ",", "\uff0c", "\u3001")  # a sentence is cut after the last of the first kind
MOST_CELLS = 1 << 20  # words by words and by tags of a segment; beyond, markup is moved in order, without attention
_EACH = 16  # words: the cost of a sentence to a tag
_WIDE = re.compile(r"[⺀-鿿豈-﫿＀-￯]")  # scripts without spaces


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of a source text and its translation."""

    start: int
    end: int
    translation: Translation


def sentence_ranges(segment: Segment, options: DocumentOptions, language: str) -> list[tuple[int, int]]:
    """Ranges of the sentences of a segment; none ends inside of fixed text."""
    if not segment.text:
        return []
    found = split_sentences(segment.text, language) if options.split_sentences else [(0, len(segment.text))]
    merged: list[tuple[int, int]] = []
    fixed = [(tag.start, tag.end) for tag in segment.tags if tag.fixed]  # none is in another one
    for start, end in found:
        before = bisect_left(fixed, (start, 0)) - 1
        if merged and before >= 0 and merged[-1][1] < fixed[before][1]:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return [part for one in merged for part in _cut(segment.text, *one, options.max_sentence)]


def _cut(text: str, start: int, end: int, most: int) -> Iterator[tuple[int, int]]:
    """A sentence in ranges of at most so many characters, cut after a sign or at a space."""
    while end - start > most:
        window = text[start : start + most]
        places = [window.rfind(sign) + 1 for sign in _SIGNS]
        at = next((place for place in places if place > most // 2), window.rfind(" ") + 1 or most)
        yield start, start + len(text[start : start + at].rstrip())
        start += at
        while start < end and text[start].isspace():
            start += 1
    if start < end:
        yield start, end


def is_sentence(text: str) -> bool:
    """Whether a sentence needs translation."""
    return is_translatable(text)


def joined(segment: Segment, pieces: list[Piece]) -> Aligned:
    """The translation of a segment; `pieces` are in order, and what is between them is copied.

    Spaces between sentences follow the script: ideographs have none, and other scripts get one.
    """
    text, at = "", 0
    places: list[tuple[int, int, int, int]] = []
    for piece in pieces:
        between, answer = segment.text[at : piece.start], piece.translation.text.strip()
        if between.isspace() or not between:
            between = _between(text, between, answer)
        text += between
        places.append((piece.start, piece.end, len(text), len(text) + len(answer)))
        text += answer
        at = piece.end
    text += segment.text[at:]
    if not segment.tags:  # nothing is moved
        return Aligned(text)
    counts = [(count_words(segment.text[start:end]), count_words(text[at:last])) for start, end, at, last in places]
    if sum((right + _EACH) * (left + len(segment.tags)) for left, right in counts) > MOST_CELLS:
        return Aligned(text, places)
    sentences = []
    for (start, end, at, last), piece in zip(places, pieces, strict=True):
        found = word_attention(segment.text[start:end], text[at:last], piece.translation)
        sentences.append(WordAttention(_moved(found.source, start), _moved(found.target, at), found.weights))
    return Aligned(text, places, sentences)


def _between(before: str, between: str, after: str) -> str:
    if not before or not after:
        return between
    wide = bool(_WIDE.match(before[-1]) and _WIDE.match(after[0]))
    if not between:
        return "" if wide or before[-1].isspace() else " "
    return "" if wide and between == " " else between


def _moved(ranges: list[tuple[int, int]], by: int) -> list[tuple[int, int]]:
    return [(start + by, end + by) for start, end in ranges]
