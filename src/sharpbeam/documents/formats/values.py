"""Documents with values in them: each value is decoded from its escapes, translated, and written with them again."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sharpbeam.documents.formats.icu import message_parts
from sharpbeam.documents.formats.interface import Template
from sharpbeam.documents.formats.placeholders import with_placeholders
from sharpbeam.documents.segment import Built, Escape, Part, Segment, is_translatable, written

_ESCAPE = re.compile(r"\\(?:[uU]([0-9a-fA-F]{4})|(.))", re.S)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def unescaped(text: str) -> str:
    r"""A text without the escapes of program files: \n, \t, \u00e9, and a backslash before any other sign."""
    text = _ESCAPE.sub(lambda sign: chr(int(sign[1], 16)) if sign[1] else _LETTERS.get(sign[2], sign[2]), text)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # a letter may have two escapes


def escaped(text: str, signs: str) -> str:
    """A text with a backslash before each of `signs`, and with escapes for line ends and tabs."""
    text = re.sub(f"([{re.escape(signs)}])", r"\\\1", text)
    for letter, sign in _LETTERS.items():
        text = text.replace(sign, "\\" + letter)
    return text


class ValuesDocument(Template):
    """A document of values; what is outside of them stays as it is, byte for byte."""

    messages = False  # values may be messages of ICU
    quotes = re.compile("''")  # in messages that have it, an apostrophe is written twice

    def __init__(self, content: str) -> None:
        super().__init__()
        self._content = content
        self._values: list[tuple[int, int, list[Built], Escape]] = []

    def value(self, start: int, end: int, text: str) -> None:
        """Add the value in [start, end), which is `text`."""
        if is_translatable(text):
            message = message_parts(text) if self.messages else None
            quotes = message is not None and self.quotes.search(text)
            self._values.append((start, end, self.aside_all(message or self.parts(text)), _doubled if quotes else str))

    def parts(self, text: str) -> list[Built]:
        """The segments of a value that is no message, and what is between them."""
        return with_placeholders(text)

    def encoded(self, text: str, raw: str) -> str:
        """How a text is written where `raw` was."""
        raise NotImplementedError

    def write(self, translated: Sequence[Sequence[Part]]) -> str:
        """The document."""
        texts, parts, at = iter(translated), list[str](), 0
        for start, end, built, escape in self._values:
            pieces = (written(list(next(texts)), escape) if isinstance(each, Segment) else each for each in built)
            text = "".join(piece.text if isinstance(piece, Part) else piece for piece in pieces)
            parts += [self._content[at:start], self.encoded(text, self._content[start:end])]
            at = end
        return "".join(parts) + self._content[at:]


def _doubled(text: str) -> str:
    return re.sub("''?", "''", text)
