"""Transfer of inline markup from a segment to its translation, by the attention of words.

A tag gets the run of target words that attended most to its words in the source. Four things hold whatever the
attention is: every tag is written once; tags are well nested, and inside of the tag that they were in; without its tags
the text is the translation, except that fixed text is written as in the source; tags at the same place keep their
order.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sharpbeam.documents.segment import Part, Segment, Tag
from sharpbeam.documents.words import Weights, WordAttention

Bools = NDArray[np.bool_]


@dataclass(slots=True)
class Aligned:
    """A translated segment: its text, and for each sentence the words with their attention, by place in the segment."""

    text: str
    sentences: list[WordAttention] = field(default_factory=list)

    def mass(self, start: int, end: int) -> Weights:
        """[T]: the share of each target word's attention that is on source[start:end]."""
        shares = [np.zeros(0)]
        for sentence in self.sentences:
            # from the word that holds `start` to the last one that begins before `end`
            first = bisect_right(sentence.source, start, key=lambda word: word[1])
            inside = slice(first, bisect_left(sentence.source, (end, 0)))
            shares.append(sentence.weights[:, inside].sum(1))
        return np.concatenate(shares)


@dataclass(slots=True)
class _Placed:
    """A tag and the range of characters of the translation that it is around."""

    tag: Tag
    index: int
    start: int
    end: int
    children: list[_Placed] = field(default_factory=list)


def transfer(segment: Segment, aligned: Aligned) -> list[Part]:
    """The translation with the markup of the segment, in order."""
    if not segment.tags:
        return [Part(aligned.text)]
    children: dict[int, list[int]] = {}
    for index, tag in enumerate(segment.tags):
        children.setdefault(tag.parent, []).append(index)
    places = _Places(segment, aligned, children)
    parts: list[Part] = []
    _write(aligned.text, 0, len(aligned.text), places.inside(-1, 0, len(aligned.text)), parts)
    return parts


@dataclass(slots=True)
class _Group:
    """Tags that stand side by side: where they may be, and which of them have a place."""

    scope: tuple[int, int]  # in the translation
    inside: Bools  # [T] words in the scope
    source: tuple[int, int]  # the range in the source of the tag around
    free: Bools  # [T] words in no tag yet
    barrier: Bools  # [T] before this word stands a tag
    taken: list[_Placed] = field(default_factory=list)

    def free_point(self, place: int) -> int:
        """`place`, or the end of the tag that it is inside of."""
        return next((placed.end for placed in self.taken if placed.start < place < placed.end), place)


class _Places:
    """Finds where tags belong."""

    def __init__(self, segment: Segment, aligned: Aligned, children: dict[int, list[int]]) -> None:
        self._segment, self._aligned, self._children = segment, aligned, children
        self._source = [word for sentence in aligned.sentences for word in sentence.source]
        target = [word for sentence in aligned.sentences for word in sentence.target]
        self._starts = np.array([start for start, _ in target], np.int64)
        self._ends = np.array([end for _, end in target], np.int64)

    def inside(self, parent: int, start: int, end: int) -> list[_Placed]:
        """Places of the tags directly inside of a tag that is around [start, end) of the translation, in order."""
        top = [(parent, start, end)]
        found: dict[int, list[_Placed]] = {}
        while top:  # without recursion: a document may nest thousands
            around, first, last = top.pop()
            found[around] = self._siblings(self._children.get(around, []), first, last, around)
            for placed in found[around]:
                placed.children = []
                top.append((placed.index, placed.start, placed.end))
        for placed_tags in found.values():
            for placed in placed_tags:
                placed.children = found[placed.index]
        return found[parent]

    def _siblings(self, indices: list[int], first: int, last: int, parent: int) -> list[_Placed]:
        """Places of tags that stand side by side in the tag `parent`, which is around [first, last)."""
        tags = self._segment.tags
        inside = (self._starts >= first) & (self._ends <= last)
        group = _Group((first, last), inside, self._around(parent), inside.copy(), np.zeros(len(inside), np.bool_))
        spans = [index for index in indices if tags[index].start < tags[index].end]
        mass = np.array([self._aligned.mass(tags[index].start, tags[index].end) for index in spans])
        best = np.where(inside, mass, 0.0).max(1, initial=0.0) if spans else np.zeros(0)
        owner = mass.argmax(0) if spans else np.zeros(0)
        for row in np.argsort(-best, kind="stable").tolist():
            others = np.where(mass.max(0) > 0.5, -9.0, np.minimum(mass[row] - 0.75, -0.25))  # -9: of another tag
            values = np.where(owner == row, mass[row] - 0.55, others)
            self._take(group, spans[row], self._run(tags[spans[row]], values, group))
        for index in indices:
            if tags[index].start == tags[index].end:
                self._take(group, index, (self._point(tags[index], group),) * 2)
        return sorted(group.taken, key=lambda placed: (placed.start, placed.end, placed.index))

    def _take(self, group: _Group, index: int, run: tuple[int, int]) -> None:
        start, end = run
        group.taken.append(_Placed(self._segment.tags[index], index, start, end))
        group.free &= (self._ends <= start) | (self._starts >= end)
        after = int(np.searchsorted(self._starts, start))
        if after < len(self._starts):
            group.barrier[after] = True

    def _run(self, tag: Tag, values: Weights, group: _Group) -> tuple[int, int]:
        """The range of one tag: the run of free words with the largest sum of `values`, which is not empty."""
        if tag.fixed and not tag.term and (same := self._same(tag, group)):
            return same
        if (tag.start, tag.end) == group.source and not group.taken:
            return group.scope
        best, run, total, begin, before = -np.inf, (0, 0), 0.0, 0, -2
        for word in np.flatnonzero(group.free).tolist():
            if word != before + 1 or total <= 0 or group.barrier[word]:
                total, begin = 0.0, word
            total, before = total + float(values[word]), word
            if total > best:
                best, run = total, (begin, word)
        if best == -np.inf:
            return (group.free_point(group.scope[1]),) * 2
        return int(self._starts[run[0]]), int(self._ends[run[1]])

    def _same(self, tag: Tag, group: _Group) -> tuple[int, int] | None:
        """Where the translation has the text of a fixed tag as it is, and no other tag took it."""
        text, wanted = self._aligned.text, self._segment.text[tag.start : tag.end]
        at = text.find(wanted, *group.scope)
        while at >= 0:
            end = at + len(wanted)
            if all(end <= placed.start or placed.end <= at for placed in group.taken):
                return at, end
            at = text.find(wanted, at + 1, group.scope[1])
        return None

    def _point(self, tag: Tag, group: _Group) -> int:
        """The place of a tag without text: before the word that attended most to the source word after it."""
        (first, last), inside = group.source, group.inside
        if tag.start <= first:
            return group.free_point(group.scope[0])
        if tag.start >= last or not inside.any():
            return group.free_point(group.scope[1])
        starts = np.where(inside, self._starts, -1)
        at = bisect_left(self._source, (tag.start, 0))
        if at < len(self._source):
            share = np.where(inside, self._aligned.mass(*self._source[at]), -1.0)
            if share.max() > 0.1:
                return group.free_point(self._at_word(tag, int(starts[share.argmax()]), group.scope[0]))
        place = group.scope[0] + (group.scope[1] - group.scope[0]) * (tag.start - first) / max(1, last - first)
        nearest = int(starts[np.where(inside, np.abs(starts - place), np.inf).argmin()])
        return group.free_point(self._at_word(tag, nearest, group.scope[0]))

    def _at_word(self, tag: Tag, place: int, least: int) -> int:
        """The beginning of a word, or the space before it if the tag stands before a space in the source."""
        source, text = self._segment.text, self._aligned.text
        before = source[tag.start : tag.start + 1].isspace() and not source[tag.start - 1 : tag.start].isspace()
        return place - 1 if before and place > least and text[place - 1].isspace() else place

    def _around(self, parent: int) -> tuple[int, int]:
        """The range in the source of the tag around."""
        if parent < 0:
            return 0, len(self._segment.text)
        return self._segment.tags[parent].start, self._segment.tags[parent].end


def _write(text: str, start: int, end: int, placed: list[_Placed], parts: list[Part]) -> None:
    """The text[start:end] with its tags into `parts`; without recursion."""
    at = start
    work: list[_Placed | tuple[int, str]] = [(end, ""), *reversed(placed)]
    while work:
        item = work.pop()
        if isinstance(item, tuple):  # the end of a tag
            stop, closing = item
            if at < stop:
                parts.append(Part(text[at:stop]))
            at = max(at, stop)
            if closing:
                parts.append(Part(closing, markup=True))
            continue
        if at < item.start:
            parts.append(Part(text[at : item.start]))
        at = max(at, item.start)
        parts.append(Part(item.tag.open, markup=not item.tag.term))
        if item.tag.fixed:
            at = max(at, item.end)
        work.append((item.end, item.tag.close))
        work += reversed(item.children)
