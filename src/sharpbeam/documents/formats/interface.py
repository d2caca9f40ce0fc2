"""The interface of document formats, and what those of text are made of: marks in the places of what is translated."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from io import StringIO
from typing import Protocol, TypeVar

from sharpbeam.documents.segment import Built, Part, Segment, check_count

Content = TypeVar("Content", str, bytes)
Content_co = TypeVar("Content_co", str, bytes, covariant=True)
Languages = tuple[str, str]  # codes of the source and the target, empty for one that is not known


class Document(Protocol[Content_co]):
    """A document that was read."""

    @property
    def segments(self) -> Sequence[Segment]:
        """The texts to translate, in order."""

    def write(self, translated: Sequence[Sequence[Part]], languages: Languages = ("", "")) -> Content_co:
        """The document with the translation of each segment in its place; if it names its language, the new one."""


class Template:
    """A text document: what stays as it is, with marks for texts. A mark may stand in markup inside of another text."""

    lacking = "strict"  # how letters are written that the encoding has not, as `str.encode` takes it

    def __init__(self, content: str) -> None:
        self._page = StringIO()
        self._places: list[tuple[Sequence[Built], Callable[[list[Part]], str]]] = []
        self._segments: list[Segment] = []
        self._count = 0
        signs = set(content)
        self._sign = next(sign for sign in map(chr, range(0xD800)) if sign not in signs)  # around the number of a mark
        self.languages: Languages = ("", "")  # while it is written

    @property
    def segments(self) -> Sequence[Segment]:
        """The texts to translate, in order."""
        return self._segments

    def keep(self, text: str) -> None:
        """Add text that stays as it is, or a mark."""
        self._page.write(text)

    def mark(self, built: Sequence[Built], write: Callable[[list[Part]], str]) -> str:
        """A mark for what a SegmentBuilder built; `write` makes text of its parts when they are translated."""
        segments = [item for item in built if isinstance(item, Segment)]
        self._segments += segments
        self._count = check_count(self._count, segments)
        self._places.append((built, write))
        return f"{self._sign}{len(self._places) - 1}{self._sign}"

    def write(self, translated: Sequence[Sequence[Part]], languages: Languages = ("", "")) -> str:
        """The document."""
        self.languages = languages
        sign, segments, texts = re.escape(self._sign), iter(translated), list[str]()
        mark = re.compile(f"{sign}([0-9]+){sign}")

        def filled(text: str) -> str:  # texts that are in another one come before it
            return mark.sub(lambda place: texts[int(place[1])], text)

        for built, write in self._places:
            parts: list[Part] = []
            for item in built:
                own = [Part(item)] if isinstance(item, str) else [item] if isinstance(item, Part) else next(segments)
                parts += (Part(filled(each.text), markup=True) if each.markup else each for each in own)
            texts.append(write(parts))
        return filled(self._page.getvalue())
