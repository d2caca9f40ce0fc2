"""Transfer of inline markup from a segment to its translation, by soft word alignment from cross-attention.

Formats take tags off: a segment has its plain text, and tags as ranges of it (segment.py). Attention is summed to
weights of target words on source words (contract/words.py). Tags are placed from the outer to the inner ones: each gets
the run of free words, inside of the tag around it, that attended most to its words in the source; a tag without text
stands before the word that attended most to the one after it. Four things hold whatever the attention is: every tag is
written once; tags are well nested, and inside of the tag that they were in; without its tags the text is the
translation, except for fixed text (code, placeholders), which is the source's; tags at one place keep their order.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from sharpbeam.contract.answers import Piece, joined_text
from sharpbeam.contract.words import Weights, WordAttention, word_attention, words
from sharpbeam.text.segment import Part, Segment, Tag
from sharpbeam.text.spans import whole

MOST_CELLS = 1 << 20  # words by words and by tags of a segment; beyond, markup is moved in order, without attention
_EACH = 16  # words: the cost of a sentence to a tag
LOOKED_AT = 8  # places of the text of a fixed tag
_HAS_WORD = re.compile(r"\w")
_NEAR = 200  # characters around its place in which fixed text is looked for
Bools = NDArray[np.bool_]


@dataclass(slots=True)
class _Aligned:
    """A translated segment: its text, and for each sentence the words with their attention, by place in the segment.

    There are no words of a long segment with much markup.
    """

    text: str
    places: list[tuple[int, int, int, int]] = field(default_factory=list)  # of sentences: source, translation
    sentences: list[WordAttention] = field(default_factory=list)


@dataclass(slots=True)
class _Placed:
    """A tag and the range of characters of the translation that it is around."""

    tag: Tag
    index: int
    start: int
    end: int
    children: list[_Placed] = field(default_factory=list)


def transfer(segment: Segment, pieces: Sequence[Piece]) -> list[Part]:
    """The translation of a segment with its markup; `pieces` are in order, and what is between them is copied."""
    text, ranges = joined_text(segment.text, pieces)
    if not segment.tags:
        return [Part(text)]
    aligned = _aligned(segment, pieces, text, ranges)
    top = _Placed(Tag(0, len(segment.text), ""), -1, 0, len(text))
    if len(aligned.sentences) == len(aligned.places):
        _Places(segment, aligned).fill(top)
    else:
        _fill_in_order(segment, aligned, top)
    return list(_written(text, top))


def _aligned(segment: Segment, pieces: Sequence[Piece], text: str, ranges: Sequence[tuple[int, int]]) -> _Aligned:
    """The translation with its words, if they and the tags are not too many."""
    aligned = _Aligned(text, [(piece.start, piece.end, *own) for piece, own in zip(pieces, ranges, strict=True)])
    sources = [segment.text[piece.start : piece.end] for piece in pieces]
    targets = [text[start:end] for start, end in ranges]
    counts = ((len(words(left)), len(words(right))) for left, right in zip(sources, targets, strict=True))
    if sum((right + _EACH) * (left + len(segment.tags)) for left, right in counts) <= MOST_CELLS:
        for source, target, piece, (at, _) in zip(sources, targets, pieces, ranges, strict=True):
            own = word_attention(source, target, piece.translation)
            moved = _moved(own.source, piece.start), _moved(own.target, at)
            aligned.sentences.append(WordAttention(*moved, own.weights))
    return aligned


def _moved(ranges: list[tuple[int, int]], by: int) -> list[tuple[int, int]]:
    return [(start + by, end + by) for start, end in ranges]


def _fill_in_order(segment: Segment, aligned: _Aligned, top: _Placed) -> None:
    """Put all tags into `top`, at about the same share of the letters of their sentence as in the source."""
    every, filled = [top], [0]  # the top and the tags, and up to where each has tags inside
    lasts = [place[1] for place in aligned.places]
    for index, tag in enumerate(segment.tags):
        around, least = every[tag.parent + 1], filled[tag.parent + 1]
        start, end = _in_proportion(aligned, lasts, tag.start, 1), _in_proportion(aligned, lasts, tag.end, 0)
        if tag.fixed:
            text = segment.text[tag.start : tag.end]
            within = max(least, start - _NEAR), min(around.end, max(start, end) + _NEAR)
            same = re.compile(whole(text)).search(aligned.text, *within)
            start, end = same.span() if same else (start, end)
        start = min(max(start, least), around.end)
        end = min(max(start, end), around.end)
        every.append(_Placed(tag, index, start, end))
        around.children.append(every[-1])
        filled[tag.parent + 1] = end
        filled.append(start)


def _in_proportion(aligned: _Aligned, lasts: list[int], at: int, after: int) -> int:
    """The nearest space to the same share of the letters of a sentence as in the source, or the place `after` it."""
    number = bisect_left(lasts, at + after)
    if number == len(lasts):
        return len(aligned.text)
    source, stop, first, last = aligned.places[number]
    if at <= source or at == stop:
        return first if at <= source else last
    place = first + (last - first) * (at - source) // (stop - source)
    edges = aligned.text.rfind(" ", first, place), aligned.text.find(" ", place, last)
    return min((edge + after for edge in edges if edge >= 0), key=lambda edge: abs(edge - place), default=last)


@dataclass(slots=True)
class _Group:
    """Tags that stand side by side: where they may be, and which of them have a place."""

    scope: tuple[int, int]  # in the translation
    words: tuple[int, int]  # first and last word in the scope
    source: tuple[int, int]  # the range in the source of the tag around
    free: Bools  # [words] in no tag yet
    barrier: Bools  # [words] before this word stands a tag
    placed: list[_Placed] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)  # of those that are not empty, in order
    next_at: dict[str, int] = field(default_factory=dict)  # from where each fixed text is looked for

    def free_point(self, place: int) -> int:
        """`place`, or the end of the tag that it is inside of."""
        before = bisect_left(self.spans, (place, 0)) - 1
        return place if before < 0 else max(place, self.spans[before][1])

    def is_free(self, start: int, end: int) -> bool:
        """Whether no tag has a letter of a range."""
        before = bisect_left(self.spans, (end, 0)) - 1
        return before < 0 or self.spans[before][1] <= start


class _Places:
    """Finds where tags belong."""

    def __init__(self, segment: Segment, aligned: _Aligned) -> None:
        self._segment, self._aligned = segment, aligned
        self._children: dict[int, list[int]] = {}
        for index, tag in enumerate(segment.tags):
            self._children.setdefault(tag.parent, []).append(index)
        self._source = [word for sentence in aligned.sentences for word in sentence.source]
        target = [word for sentence in aligned.sentences for word in sentence.target]
        self._starts = np.array([start for start, _ in target], np.int64)
        self._ends = np.array([end for _, end in target], np.int64)
        self._signs = np.array([not aligned.text[start].isalnum() for start, _ in target], np.bool_)
        # of each sentence, and of the end: its first word on both sides
        sizes = [(len(sentence.source), len(sentence.target)) for sentence in aligned.sentences]
        self._firsts = np.cumsum([(0, 0), *sizes], axis=0).tolist()

    def _mass(self, start: int, end: int, words: tuple[int, int]) -> Weights:
        """The share of each target word's attention that is on source[start:end], of the words in a range."""
        # from the word that holds `start` to the last one that begins before `end`
        first = bisect_right(self._source, start, key=lambda word: word[1])
        last = bisect_left(self._source, (end, 0))
        shares = np.zeros(words[1] - words[0])
        number = max(0, bisect_right(self._firsts, first, key=lambda place: place[0]) - 1)
        while number < len(self._aligned.sentences) and self._firsts[number][0] < last:
            (left, low), (_, high) = self._firsts[number : number + 2]
            begin, stop = max(low, words[0]), min(high, words[1])
            weights = self._aligned.sentences[number].weights
            if begin < stop:
                inside = weights[begin - low : stop - low, max(0, first - left) : last - left]
                shares[begin - words[0] : stop - words[0]] = inside.sum(1)
            number += 1
        return shares

    def fill(self, top: _Placed) -> None:
        """Put all tags into `top`."""
        left = [top]
        while left:  # without recursion: a document may nest thousands
            around = left.pop()
            if own := self._children.get(around.index):
                around.children = self._siblings(own, around)
                left += around.children

    def _siblings(self, indices: list[int], around: _Placed) -> list[_Placed]:
        """Places of sibling tags, in order; in a run a word counts for a tag by its share of attention above 0.55."""
        tags, first, last = self._segment.tags, around.start, around.end
        low = int(np.searchsorted(self._starts, first))
        words = low, max(low, int(np.searchsorted(self._ends, last, "right")))
        count = words[1] - low
        source, none = (around.tag.start, around.tag.end), np.zeros(count, np.bool_)
        group = _Group((first, last), words, source, ~none, none)
        spans = [index for index in indices if tags[index].start < tags[index].end]
        mass = np.array([self._mass(tags[index].start, tags[index].end, words) for index in spans])
        mass = mass.reshape(len(spans), count)
        top, owner = (mass.max(0), mass.argmax(0)) if spans else (np.zeros(count), np.zeros(count))
        for row in np.argsort(-mass.max(1, initial=0.0), kind="stable").tolist():
            others = np.where(top > 0.5, -9.0, np.minimum(mass[row] - 0.75, -0.25))  # -9: another's; the rest cost
            values = np.where(owner == row, mass[row] - 0.55, others)
            self._take(group, spans[row], self._run(tags[spans[row]], values, group))
        for index in indices:
            if tags[index].start == tags[index].end:
                self._take(group, index, (self._point(tags[index], group),) * 2)
        return sorted(group.placed, key=lambda placed: (placed.start, placed.end, placed.index))

    def _take(self, group: _Group, index: int, run: tuple[int, int]) -> None:
        start, end = run
        group.placed.append(_Placed(self._segment.tags[index], index, start, end))
        if start < end:
            insort(group.spans, run)
        low = group.words[0]
        first = int(np.searchsorted(self._ends, start, "right")) - low
        after, last = (int(np.searchsorted(self._starts, place)) - low for place in run)
        group.free[max(0, first) : max(0, last)] = False
        if 0 <= after < len(group.barrier):
            group.barrier[after] = True

    def _run(self, tag: Tag, values: Weights, group: _Group) -> tuple[int, int]:
        """The range of one tag: the run of free words with the largest sum of `values`, which is not empty."""
        if tag.fixed and (same := self._same(tag, values, group)):
            return same
        if (tag.start, tag.end) == group.source and not group.placed:
            return group.scope
        free = np.flatnonzero(group.free)
        if not len(free):
            return (group.free_point(group.scope[1]),) * 2
        good = np.flatnonzero(values[free] > 0)
        at = int(values[free].argmax())  # alone, if no word is worth taking
        best, run, total, begin, before = -np.inf, (0, 0), 0.0, 0, -2
        for word in free[good[0] : good[-1] + 1].tolist() if len(good) else [int(free[at])]:
            if word != before + 1 or total <= 0 or group.barrier[word]:
                total, begin = 0.0, word
            total, before = total + float(values[word]), word
            if total > best:
                best, run = total, (begin, word)
        low = group.words[0]
        if run[0] == run[1] and self._signs[low + run[0]] and _HAS_WORD.search(self._segment.text, tag.start, tag.end):
            others = np.where(self._signs[slice(*group.words)], -np.inf, values)  # no word became a sign alone
            if np.isfinite(others[free]).any():
                run = (int(free[others[free].argmax()]),) * 2
        return int(self._starts[low + run[0]]), int(self._ends[low + run[1]])

    def _same(self, tag: Tag, values: Weights, group: _Group) -> tuple[int, int] | None:
        """Where the translation has the text of a fixed tag as it is, and no other tag took it.

        Of several such places it is the one with the largest of `values`, or else the one nearest to the same share of
        the text around as in the source: code such as `a` may be a word too.
        """
        text, own = self._aligned.text, self._segment.text[tag.start : tag.end]
        (first, last), low = group.scope, group.words[0]
        begin = group.next_at.get(own, first)
        places: list[tuple[int, int]] = []
        for pattern in () if begin >= last else (whole(own), re.escape(own)):  # code may be a part of a word too
            near = (match.span() for match in islice(re.compile(pattern).finditer(text, begin, last), LOOKED_AT))
            places = places or [place for place in near if group.is_free(*place)]
        if not places:
            group.next_at[own] = last
            return None
        share = (tag.start - group.source[0]) / max(1, group.source[1] - group.source[0])

        def rank(place: tuple[int, int]) -> tuple[float, float]:
            word = int(np.searchsorted(self._ends, place[0], "right")) - low
            value = round(float(values[word]), 2) if 0 <= word < len(values) else -1.0
            return value, -abs(place[0] - first - share * (last - first))

        best = max(places, key=rank)
        group.next_at[own] = best[1] if best == places[0] else begin
        return best

    def _point(self, tag: Tag, group: _Group) -> int:
        """The place of a tag without text: before the word that attended most to the source word after it."""
        (first, last), words = group.source, group.words
        if tag.start <= first:
            return group.free_point(group.scope[0])
        if tag.start >= last or words[0] == words[1]:
            return group.free_point(group.scope[1])
        starts = self._starts[slice(*words)]
        at = bisect_left(self._source, (tag.start, 0))
        if at < len(self._source):
            share = self._mass(*self._source[at], words)
            if share.max() > 0.1:
                return group.free_point(self._at_word(tag, int(starts[share.argmax()]), group.scope[0]))
        place = group.scope[0] + (group.scope[1] - group.scope[0]) * (tag.start - first) / max(1, last - first)
        return group.free_point(self._at_word(tag, int(starts[np.abs(starts - place).argmin()]), group.scope[0]))

    def _at_word(self, tag: Tag, place: int, least: int) -> int:
        """The beginning of a word, or the space before it if the tag stands before a space in the source."""
        source, text = self._segment.text, self._aligned.text
        before = source[tag.start : tag.start + 1].isspace() and not source[tag.start - 1 : tag.start].isspace()
        return place - 1 if before and place > least and text[place - 1].isspace() else place


def _written(text: str, top: _Placed) -> Iterator[Part]:
    """The text with the tags in `top`; without recursion."""
    at = 0
    work: list[tuple[int, str, _Placed | None]] = [(top.start, "", top)]  # places of markup, and the tag that it opens
    while work:
        place, markup, opened = work.pop()
        if at < place:
            yield Part(text[at:place])
            at = place
        if markup:
            yield Part(markup, markup=True)
        if opened:
            at = max(at, opened.end) if opened.tag.fixed else at
            work.append((opened.end, opened.tag.close, None))
            work += ((child.start, child.tag.open, child) for child in reversed(opened.children))
