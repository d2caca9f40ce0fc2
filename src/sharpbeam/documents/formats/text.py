"""Plain text: each line is a segment; line ends and the white space around a line stay as they are."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sharpbeam.documents.formats.interface import Template
from sharpbeam.documents.segment import Part, Segment, is_translatable

_LINE = re.compile(r"[^\r\n]+|[\r\n]+")


class TextDocument(Template):
    """Plain text."""

    def __init__(self, content: str) -> None:
        super().__init__()
        for line in _LINE.findall(content):
            text = line.strip()
            if not is_translatable(text):
                self.keep(line)
                continue
            first = line.index(text)
            self.keep(line[:first])
            self.put(Segment(text))
            self.keep(line[first + len(text) :])

    def write(self, translated: Sequence[Sequence[Part]]) -> str:
        """The text with translated lines; a line stays one."""
        return self.filled([" ".join("".join(part.text for part in parts).splitlines()) for parts in translated])
