"""Text documents as the bytes of a file: their encoding is that of a byte order mark, or the one that they name."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Sequence

from sharpbeam.documents.formats.interface import Languages, Template
from sharpbeam.documents.segment import Part, Segment
from sharpbeam.errors import InputError
from sharpbeam.text.encodings import known_encoding

HTML_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w.:-]+)""", re.I)
XML_CHARSET = re.compile(rb"""\A\s*<\?xml\s[^>]{0,200}?encoding\s*=\s*["']([\w.:-]+)""")
_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


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

    @property
    def segments(self) -> Sequence[Segment]:
        """Those of the text."""
        return self._document.segments

    def write(self, translated: Sequence[Sequence[Part]], languages: Languages = ("", "")) -> bytes:
        """The bytes; in HTML and XML what the encoding lacks is written by its number."""
        text = self._document.write(translated, languages)
        return self._mark + text.encode(self._charset, self._document.lacking)
