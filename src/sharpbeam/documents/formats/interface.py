"""The interface of document formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from sharpbeam.documents.segment import Built, Escape, Part, Segment, check_count

Content = TypeVar("Content", str, bytes)
Content_co = TypeVar("Content_co", str, bytes, covariant=True)


class Document(Protocol[Content_co]):
    """A document that was read."""

    @property
    def segments(self) -> Sequence[Segment]:
        """The texts to translate, in order."""

    def write(self, translated: Sequence[Sequence[Part]]) -> Content_co:
        """The document with the translation of each segment in its place."""


class Template:
    """A text document: what is kept as it is, and places of segments in between."""

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._items: list[str | int] = []  # text to keep, and indices of segments
        self._kept: list[str] = []  # text that is not in the items yet, where many short ones take much memory
        self._count = 0
        self._roots: list[int] = []  # places of items that say the language

    @property
    def segments(self) -> Sequence[Segment]:
        """The texts to translate, in order."""
        return self._segments

    def keep(self, text: str) -> None:
        """Add text that stays as it is."""
        if text:
            self._kept.append(text)
        if len(self._kept) > 1000:
            self._join()

    def keep_root(self, text: str) -> None:
        """Add text that stays, and that says the language of the document."""
        self._join()
        self._roots.append(len(self._items))
        self._items.append(text)

    def rewrite_roots(self, rewrite: Callable[[str], str]) -> None:
        """Change what says the language."""
        for place in self._roots:
            self._items[place] = rewrite(str(self._items[place]))

    def _join(self) -> None:
        if self._kept:
            self._items.append("".join(self._kept))
            self._kept = []

    def aside(self, segment: Segment) -> int:
        """Add a segment without a place, whose translation is written elsewhere; returns its index."""
        self._segments.append(segment)
        self._count = check_count(self._count, (segment,))
        return len(self._segments) - 1

    def aside_all(self, built: list[Built]) -> list[Built]:
        """Add the segments of what was built, without places; returns it."""
        for item in built:
            if isinstance(item, Segment):
                self.aside(item)
        return built

    def put(self, segment: Segment) -> None:
        """Add a segment."""
        self._join()
        self._items.append(self.aside(segment))

    def add(self, built: Sequence[Built], escape: Escape) -> None:
        """Add what a SegmentBuilder built."""
        for item in built:
            if isinstance(item, Segment):
                self.put(item)
            else:
                self.keep(item.text if isinstance(item, Part) else escape(item))

    def filled(self, texts: Sequence[str]) -> str:
        """The document with `texts` in the places of the segments."""
        self._join()
        return "".join(item if isinstance(item, str) else texts[item] for item in self._items)
