"""Plain text: each line is a segment; line ends and the white space around a line stay as they are."""

from __future__ import annotations

import re

from sharpbeam.documents.formats.values import ValuesDocument
from sharpbeam.documents.segment import Built, Segment

_LINE = re.compile(r"[^\r\n]+")


class TextDocument(ValuesDocument):
    """Plain text."""

    def __init__(self, content: str) -> None:
        super().__init__(content)
        for line in _LINE.finditer(content):
            if text := line[0].strip():
                start = line.start() + line[0].index(text)
                self.value(start, start + len(text), text)

    def parts(self, text: str) -> list[Built]:
        """The line as it stands."""
        return [Segment(text)]

    def encoded(self, text: str, raw: str) -> str:
        """A line stays one."""
        return " ".join(text.splitlines())
