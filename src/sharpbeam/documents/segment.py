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
        self._tags: list[tuple[int, int, str, str, int, bool]] = []  # as the fields of Tag; end < 0: not closed yet
        self._open: list[tuple[str, int]] = []  # names and indices of open tags
        self._names: dict[str, list[int]] = {}  # places in that list, by name
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
        self._append((self._length, -1, raw, "", self._parent, False))
        self._names.setdefault(name, []).append(len(self._open))
        self._open.append((name, len(self._tags) - 1))

    def close(self, name: str, raw: str) -> None:
        """Add a closing tag."""
        if not self._names.get(name):
            self._unopened.add(len(self._tags))
            self.point(raw)
            return
        index = self._open[self._names[name][-1]][1]
        start, _, opened, _, parent, _ = self._tags[index]
        self._tags[index] = (start, self._length, opened, raw, parent, False)
        while True:
            inner, last = self._open.pop()
            self._names[inner].pop()
            if last == index:
                break

    def point(self, raw: str, solid: bool = False) -> None:
        """Add markup without text. Spaces before and after a `solid` one, as an image is, are not one space."""
        self._solid = solid
        self._append((self._length, self._length, raw, "", self._parent, False))

    def boundary(self, raw: str) -> None:
        """Add markup that ends a segment, as a line break does."""
        self._unopened.add(len(self._tags))
        self.point(raw)
        self.add(" " if self._open else "")

    def fixed(self, text: str, raw: str) -> None:
        """Add `text` that is not translated but written as `raw`."""
        start = self._length
        self.add(text)
        self._append((start, self._length, raw, "", self._parent, self._length > start))

    def _append(self, tag: tuple[int, int, str, str, int, bool]) -> None:
        if len(self._tags) >= MOST_TAGS:
            raise InputError(f"a paragraph of the document has more than {MOST_TAGS:,} tags; split it.")
        self._tags.append(tag)

    @property
    def _parent(self) -> int:
        return self._open[-1][1] if self._open else -1

    def build(self) -> list[Built]:
        """Everything that was added, in order: white space, segments, and markup that stays where it is.

        A tag that is opened or closed in another segment stays where it is, and text before and after it is translated
        apart; unless a tag is around it that is opened and closed here, where it is a point. Points before the first
        letter and after the last one stay too.
        """
        text = "".join(self._text)
        built: list[Built] = []
        first = begin = 0
        lone = self._lone()
        visible, last = -1, len(text.rstrip(_WHITE))  # the first letter from `begin` on, and the end of the last one
        for index, (start, end, raw, closed, _, _) in enumerate(self._tags):
            if visible < begin:
                visible = len(text) if (letter := _LETTER.search(text, begin)) is None else letter.start()
            if index in lone or (self._is_point(index) and (start <= visible or start >= last)):
                built += self._between(text[begin:start], begin, range(first, index))
                built.append(Part(raw if end < 0 else raw + closed, markup=True))
                first, begin = index + 1, start
        return [*built, *self._between(text[begin:], begin, range(first, len(self._tags)))]

    def _is_point(self, index: int) -> bool:
        """Whether a tag is a point, without tags in it or around it."""
        start, end, _, _, parent, _ = self._tags[index]
        follows = index + 1 < len(self._tags) and self._tags[index + 1][4] == index
        return start == end and parent < 0 and not follows

    def _lone(self) -> set[int]:
        """Tags that stay where they are."""
        lone: set[int] = set()
        for index, (_, end, _, _, parent, _) in enumerate(self._tags):
            if (end < 0 or index in self._unopened) and (parent < 0 or parent in lone):
                lone.add(index)
        return lone

    def _between(self, text: str, offset: int, indices: range) -> list[Built]:
        body = text.strip(_WHITE)
        first = len(text) - len(text.lstrip(_WHITE)) if body else 0
        tags: list[Tag] = []
        for index in indices:
            start, end, opened, closed, parent, fixed = self._tags[index]
            parent = max(-1, parent - indices.start)
            if parent >= 0 and self._tags[indices.start + parent][1] < 0:  # a point holds nothing
                parent = tags[parent].parent
            places = (start, start if end < 0 else end)
            begin, finish = (min(max(place - offset - first, 0), len(body)) for place in places)
            tags.append(Tag(begin, finish, opened, closed, parent, fixed and begin < finish))
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
