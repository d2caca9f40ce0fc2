"""Segments: texts to translate with the markup inside of them, and marked-up text that comes out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sharpbeam.errors import InputError

_WHITE = " \t\n\r\f"
_SPACES = re.compile(rf"[{_WHITE}]+")
_LETTER = re.compile(rf"[^{_WHITE}]")
MOST_TAGS = 50_000  # of a segment
MOST_SEGMENTS = 200_000  # of a document, and tags in them


@dataclass(slots=True)
class Tag:
    """Inline markup around text[start:end] of a segment; an empty range is a point, as of an image or a footnote mark.

    Tags of a segment are in the order in which they open, and well nested: `parent` is the index of the tag around this
    one, or -1. A `fixed` tag is written as `open` in the place of its text, which is not translated: code, a
    placeholder.
    """

    start: int
    end: int
    open: str
    close: str = ""
    parent: int = -1
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Segment:
    """A text that is translated as a whole: a paragraph, a cell, a caption."""

    text: str  # without markup, entities decoded
    tags: tuple[Tag, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a translated segment, in order: text to escape, or markup to write as it is."""

    text: str
    markup: bool = False


Built = str | Segment | Part  # white space, a text to translate, or markup that stays


class SegmentBuilder:
    """Collects text and inline tags in their order, and makes a Segment of them.

    A closing tag closes the innermost open one of its name. Tags of segments are well nested whatever the input was,
    and none is lost.
    """

    def __init__(self, collapse: bool = True) -> None:
        """`collapse`: any white space is one space, as in HTML."""
        self._collapse = collapse
        self._text: list[str] = []
        self._length = 0
        self._tags: list[Tag] = []  # end < 0: not closed yet
        self._open: list[tuple[str, int]] = []  # names and indices of open tags
        self._names: dict[str, list[int]] = {}  # places in that list, by name
        self._unopened: set[int] = set()  # indices of closing tags that close nothing
        self._empty: Tag | None = None  # the last thing added, if it has no text: between its sides no space is lost

    def add(self, text: str) -> None:
        """Add text."""
        if self._collapse:
            text = _SPACES.sub(" ", text)
        if text.startswith(" ") and self._text and self._text[-1].endswith(" ") and (self._collapse or self._empty):
            text = text[1:]
            if self._empty:  # it moves with the tag: the text has one space, as its translation will
                self._empty.close += " "
        self._empty = None
        if text:
            self._text.append(text)
            self._length += len(text)

    def open(self, name: str, raw: str) -> None:
        """Add an opening tag, written as `raw`."""
        self._append(self._length, -1, raw)
        self._names.setdefault(name, []).append(len(self._open))
        self._open.append((name, len(self._tags) - 1))

    def close(self, name: str, raw: str) -> None:
        """Add a closing tag."""
        if not self._names.get(name):
            self._unopened.add(len(self._tags))
            self.point(raw)
            return
        place = self._names[name][-1]
        tag = self._tags[self._open[place][1]]
        tag.end, tag.close = self._length, raw
        if self._collapse and tag.start == tag.end:
            self._empty = tag
        for inner, _ in self._open[place:]:
            self._names[inner].pop()
        del self._open[place:]

    def point(self, raw: str) -> None:
        """Add markup without text, as an image is; spaces before and after it are not one space."""
        self._append(self._length, self._length, raw)
        self._empty = self._tags[-1]

    def boundary(self, raw: str) -> None:
        """Add markup that ends a segment, as a line break does."""
        self._unopened.add(len(self._tags))
        self._append(self._length, self._length, raw)
        self.add(" " if self._open else "")

    def fixed(self, text: str, raw: str) -> None:
        """Add `text` that is not translated but written as `raw`."""
        start = self._length
        self.add(text)
        self._append(start, self._length, raw, self._length > start)

    def _append(self, start: int, end: int, raw: str, fixed: bool = False) -> None:
        if len(self._tags) >= MOST_TAGS:
            raise InputError(f"a paragraph of the document has more than {MOST_TAGS:,} tags; split it.")
        self._tags.append(Tag(start, end, raw, parent=self._open[-1][1] if self._open else -1, fixed=fixed))

    def build(self) -> list[Built]:
        """Everything that was added, in order: white space, segments, and markup that stays where it is.

        A tag that is opened or closed in another segment stays where it is, and text before and after it is translated
        apart; unless a tag is around it that is opened and closed here, where it is a point. Points before the first
        letter and after the last one stay too.
        """
        text = "".join(self._text)
        built: list[Built] = []
        first = begin = 0
        lone: set[int] = set()  # tags that stay
        visible, last = -1, len(text.rstrip(_WHITE))  # the first letter from `begin` on, and the end of the last one
        for index, tag in enumerate(self._tags):
            if visible < begin:
                visible = len(text) if (letter := _LETTER.search(text, begin)) is None else letter.start()
            if (tag.end < 0 or index in self._unopened) and (tag.parent < 0 or tag.parent in lone):
                lone.add(index)
            if index in lone or (self._is_point(index) and (tag.start <= visible or tag.start >= last)):
                built += self._between(text[begin : tag.start], begin, range(first, index))
                built += [Part(markup, markup=True) for markup in (tag.open, tag.close) if markup]
                first, begin = index + 1, tag.start
        return [*built, *self._between(text[begin:], begin, range(first, len(self._tags)))]

    def _is_point(self, index: int) -> bool:
        """Whether a tag is a point, without tags in it or around it."""
        tag = self._tags[index]
        follows = index + 1 < len(self._tags) and self._tags[index + 1].parent == index
        return tag.start == tag.end and tag.parent < 0 and not follows

    def _between(self, text: str, offset: int, indices: range) -> list[Built]:
        body = text.strip(_WHITE)
        first = len(text) - len(text.lstrip(_WHITE)) if body else 0
        tags: list[Tag] = []
        for tag in self._tags[indices.start : indices.stop]:
            parent = max(-1, tag.parent - indices.start)
            if parent >= 0 and self._tags[tag.parent].end < 0:  # a point holds nothing
                parent = tags[parent].parent
            places = (tag.start, tag.start if tag.end < 0 else tag.end)
            begin, end = (min(max(place - offset - first, 0), len(body)) for place in places)
            tags.append(Tag(begin, end, tag.open, tag.close, parent, tag.fixed and begin < end))
        if not body:
            return [*([text] if text else []), *([Segment("", tuple(tags))] if tags else [])]
        return [text[:first], Segment(body, tuple(tags)), text[first + len(body) :]]


def check_count(count: int, segments: Sequence[Segment]) -> int:
    """`count` and that of more segments and their tags, of which each takes some hundred bytes.

    Raises InputError for more than a document may have.
    """
    count += sum(1 + len(segment.tags) for segment in segments)
    if count > MOST_SEGMENTS:
        raise InputError(f"the document has more than {MOST_SEGMENTS:,} paragraphs, lines, cells or tags; split it.")
    return count


Escape = Callable[[str], str]


def written(parts: list[Part], escape: Escape) -> str:
    """The parts as text of a format."""
    return "".join(part.text if part.markup else escape(part.text) for part in parts)


def is_translatable(text: str) -> bool:
    """Whether there is anything to translate: a letter of any script."""
    return any(letter.isalpha() for letter in text)
