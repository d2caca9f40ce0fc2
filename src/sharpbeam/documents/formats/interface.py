"""The interface of document formats; what those of text are made of; and texts in the bytes of a file."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Sequence
from io import StringIO
from typing import Protocol, TypeVar

from sharpbeam.errors import InputError
from sharpbeam.text.lines import known_encoding
from sharpbeam.text.segment import Built, Part, Segment, check_count

Content = TypeVar("Content", str, bytes)
Content_co = TypeVar("Content_co", str, bytes, covariant=True)
_AS_BROWSERS = {  # other encodings than pages name, by the Encoding Standard
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "gb2312": "gb18030", "gbk": "gb18030",
    "shift_jis": "cp932", "euc_kr": "cp949",
}  # fmt: skip
HTML_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w.:-]+)""", re.I)
XML_CHARSET = re.compile(rb"""\A\s*<\?xml\s[^>]{0,200}?encoding\s*=\s*["']([\w.:-]+)""")
_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
Languages = tuple[str, str]  # codes of the source and the target, empty for one that is not known


class Document(Protocol[Content_co]):
    """A document that was read."""

    segments: list[Segment]  # the texts to translate, in order

    def write(self, translated: Sequence[Sequence[Part]], languages: Languages = ("", "")) -> Content_co:
        """The document with the translation of each segment in its place; if it names its language, the new one."""


class Template:
    """A text document: what stays as it is, with marks for texts. A mark may stand in markup inside of another text."""

    lacking = "strict"  # how letters are written that the encoding has not, as `str.encode` takes it

    def __init__(self, content: str) -> None:
        self._page = StringIO()
        self._places: list[tuple[Sequence[Built], Callable[[list[Part]], str]]] = []
        self.segments: list[Segment] = []
        self._count = 0
        signs = set(content)
        self._sign = next(sign for sign in map(chr, range(0xD800)) if sign not in signs)  # around the number of a mark
        self.languages: Languages = ("", "")  # while it is written

    def keep(self, text: str) -> None:
        """Add text that stays as it is, or a mark."""
        self._page.write(text)

    def mark(self, built: Sequence[Built], write: Callable[[list[Part]], str]) -> str:
        """A mark for what a SegmentBuilder built; `write` makes text of its parts when they are translated."""
        segments = [item for item in built if isinstance(item, Segment)]
        self.segments += segments
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


class EncodedDocument:
    """A text document in bytes; a byte order mark stays."""

    def __init__(
        self,
        content: bytes,
        read: Callable[[str], Template],
        charset: re.Pattern[bytes] | None = None,
        otherwise: str = "",
    ) -> None:
        """`charset` finds the name of the encoding, which is UTF-8 without one; what is not is in `otherwise`."""
        self._mark = next((mark for mark in _MARKS if content.startswith(mark)), b"")
        named = charset.search(content[:4096]) if charset else None
        name = _MARKS.get(self._mark) or (named[1].decode() if named else "utf-8")
        self._charset = name if self._mark else known_encoding(name) or ""
        if charset is HTML_CHARSET:
            self._charset = _AS_BROWSERS.get(self._charset, self._charset)
        if not self._charset:
            raise InputError(
                f"the document says that it is in {name!r:.60}, which cannot be read; convert it to UTF-8."
            )
        content = content[len(self._mark) :]
        try:
            text = content.decode(self._charset)
        except UnicodeDecodeError as error:
            if not otherwise or self._mark:
                raise InputError(
                    f"byte {error.start + 1} of the document is not valid {self._charset}; convert it to UTF-8."
                ) from error
            self._charset, text = otherwise, content.decode(otherwise)
        self._document = read(text)
        self.segments = self._document.segments

    def write(self, translated: Sequence[Sequence[Part]], languages: Languages = ("", "")) -> bytes:
        """The bytes; in HTML and XML what the encoding lacks is written by its number."""
        text = self._document.write(translated, languages)
        return self._mark + text.encode(self._charset, self._document.lacking)
