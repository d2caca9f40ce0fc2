"""Segments: texts to translate with the markup inside of them, and marked-up text that comes out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_WHITE = " \t\n\r\f"
_SPACES = re.compile(rf"[{_WHITE}]+")


@dataclass(frozen=True, slots=True)
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
    term: bool = False  # `open` is no markup but the translation of a term


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
        self._tags: list[tuple[int, int, str, str, int, bool]] = []  # as the fields of Tag; end < 0: not closed yet
        self._open: list[tuple[str, int]] = []  # names and indices of open tags
        self._unopened: set[int] = set()  # indices of closing tags that close nothing
        self._solid = False  # the last thing added is a point between whose sides no space is lost

    def add(self, text: str) -> None:
        """Add text."""
        if self._collapse:
            text = _SPACES.sub(" ", text)
            if text.startswith(" ") and self._text and self._text[-1].endswith(" "):
                text = text[1:]
                if self._solid:  # it moves with the point: the text has one space, as its translation will
                    start, end, raw, closed, parent, fixed = self._tags[-1]
                    self._tags[-1] = (start, end, raw + " ", closed, parent, fixed)
            self._solid = False
        if text:
            self._text.append(text)
            self._length += len(text)

    def open(self, name: str, raw: str) -> None:
        """Add an opening tag, written as `raw`."""
        self._tags.append((self._length, -1, raw, "", self._parent, False))
        self._open.append((name, len(self._tags) - 1))

    def close(self, name: str, raw: str) -> None:
        """Add a closing tag."""
        at = next((i for i in reversed(range(len(self._open))) if self._open[i][0] == name), None)
        if at is None:
            self._unopened.add(len(self._tags))
            self.point(raw)
            return
        index = self._open[at][1]
        start, _, opened, _, parent, _ = self._tags[index]
        self._tags[index] = (start, self._length, opened, raw, parent, False)
        del self._open[at + 1 :], self._open[at]

    def point(self, raw: str, solid: bool = False) -> None:
        """Add markup without text. Spaces before and after a `solid` one, as an image is, are not one space."""
        self._solid = solid
        self._tags.append((self._length, self._length, raw, "", self._parent, False))

    def boundary(self, raw: str) -> None:
        """Add markup that ends a segment, as a line break does."""
        self._unopened.add(len(self._tags))
        self.point(raw)
        self.add(" " if self._open else "")

    def fixed(self, text: str, raw: str) -> None:
        """Add `text` that is not translated but written as `raw`."""
        start = self._length
        self.add(text)
        self._tags.append((start, self._length, raw, "", self._parent, self._length > start))

    @property
    def _parent(self) -> int:
        return self._open[-1][1] if self._open else -1

    def build(self) -> list[str | Segment | Part]:
        """Everything that was added, in order: white space, segments, and markup that stays where it is.

        A tag that is opened or closed in another segment stays where it is, and text before and after it is translated
        apart; unless a tag is around it that is opened and closed here, where it is a point. Points before the first
        letter and after the last one stay too.
        """
        text = "".join(self._text)
        built: list[str | Segment | Part] = []
        first = begin = 0
        lone = self._lone()
        for index, (start, end, raw, closed, _, _) in enumerate(self._tags):
            if index in lone or self._at_edge(index, text, begin):
                built += self._between(text[begin:start], begin, range(first, index))
                built.append(Part(raw if end < 0 else raw + closed, markup=True))
                first, begin = index + 1, start
        return [*built, *self._between(text[begin:], begin, range(first, len(self._tags)))]

    def _at_edge(self, index: int, text: str, begin: int) -> bool:
        """Whether a tag is a point, without tags in it, at the beginning or the end of the text."""
        start, end, _, _, parent, _ = self._tags[index]
        follows = index + 1 < len(self._tags) and self._tags[index + 1][4] == index
        if start != end or parent >= 0 or follows:
            return False
        return not text[begin:start].strip(_WHITE) or not text[start:].strip(_WHITE)

    def _lone(self) -> set[int]:
        """Tags that stay where they are."""
        lone: set[int] = set()
        for index, (_, end, _, _, parent, _) in enumerate(self._tags):
            if (end < 0 or index in self._unopened) and (parent < 0 or parent in lone):
                lone.add(index)
        return lone

    def _between(self, text: str, offset: int, indices: range) -> list[str | Segment | Part]:
        body = text.strip(_WHITE)
        first = len(text) - len(text.lstrip(_WHITE)) if body else 0
        new = {old: number for number, old in enumerate(indices)}
        tags = []
        for index in indices:
            start, end, opened, closed, parent, fixed = self._tags[index]
            while parent >= 0 and (parent not in new or self._tags[parent][1] < 0):  # a point holds nothing
                parent = self._tags[parent][4]
            places = (start, start if end < 0 else end)
            begin, finish = (min(max(place - offset - first, 0), len(body)) for place in places)
            tags.append(Tag(begin, finish, opened, closed, new.get(parent, -1), fixed and begin < finish))
        if not body:
            return [text, Segment("", tuple(tags))]
        return [text[:first], Segment(body, tuple(tags)), text[first + len(body) :]]


Escape = Callable[[str], str]


def written(parts: list[Part], escape: Escape) -> str:
    """The parts as text of a format."""
    return "".join(part.text if part.markup else escape(part.text) for part in parts)


def is_translatable(text: str) -> bool:
    """Whether there is anything to translate: a letter of any script."""
    return any(letter.isalpha() for letter in text)
