"""The formats of documents by name and by suffix."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from sharpbeam.documents.formats.archives import EpubDocument
from sharpbeam.documents.formats.docx import DocxDocument
from sharpbeam.documents.formats.html import HtmlDocument, XhtmlDocument
from sharpbeam.documents.formats.interface import Content, Document
from sharpbeam.documents.formats.markdown import MarkdownDocument
from sharpbeam.documents.formats.po import PoDocument
from sharpbeam.documents.formats.subtitles import SubtitleDocument
from sharpbeam.documents.formats.tables import CsvDocument, JsonDocument
from sharpbeam.documents.formats.text import TextDocument
from sharpbeam.documents.segment import Part, Segment
from sharpbeam.errors import InputError, OptionError, nearest
from sharpbeam.options.schema import require
from sharpbeam.text.encodings import known_encoding

_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w.:-]+)""", re.I)


@dataclass(frozen=True)
class Format:
    """A format: its suffixes, and what reads it."""

    suffixes: tuple[str, ...]
    text: Callable[[str], Document[str]] | None = None
    fields: Callable[[str, Sequence[str]], Document[str]] | None = None  # text, of which some fields are translated
    binary: Callable[[bytes], Document[bytes]] | None = None


FORMATS = {
    "text": Format((".txt", ".text"), text=TextDocument),
    "html": Format((".html", ".htm"), text=HtmlDocument),
    "xhtml": Format((".xhtml",), text=XhtmlDocument),
    "markdown": Format((".md", ".markdown"), text=MarkdownDocument),
    "subtitles": Format((".srt", ".vtt"), text=SubtitleDocument),
    "po": Format((".po", ".pot"), text=PoDocument),
    "json": Format((".json", ".jsonl"), fields=JsonDocument),
    "csv": Format((".csv", ".tsv"), fields=CsvDocument),
    "docx": Format((".docx",), binary=DocxDocument),
    "epub": Format((".epub",), binary=EpubDocument),
}


def format_names() -> tuple[str, ...]:
    """Names of all formats."""
    return tuple(FORMATS)


def format_of(path: Path) -> str:
    """The format of a file by its suffix; raises OptionError for one that is not known."""
    for name, known in FORMATS.items():
        if path.suffix.lower() in known.suffixes:
            return name
    raise OptionError(
        f"the format of {path.name} is not known by its suffix; name it: one of {', '.join(FORMATS)} as `format`."
    )


def read_document(content: Content, format: str, fields: Sequence[str] = ()) -> Document[Content]:
    """A document from its text or the bytes of its file.

    `fields` are keys of JSON (default: all) or columns of a table. Raises OptionError for an unknown format or field,
    and InputError for content that is not of the format.
    """
    if format not in FORMATS:
        raise OptionError(f"format is {format!r}; it must be one of {', '.join(FORMATS)}.{nearest(format, FORMATS)}")
    known = FORMATS[format]
    require(not fields or known.fields is not None, "fields", fields, f"left out: {format} has none")
    if known.binary is not None:
        if isinstance(content, str):
            raise InputError(f"a document of the format {format} is given as bytes, not as str.")
        return known.binary(content)
    read = known.text or (lambda text: cast("Document[str]", known.fields and known.fields(text, fields)))
    if isinstance(content, str):
        try:
            content.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"character {error.start + 1} of the document is half of a surrogate pair.") from error
        return read(content)
    found = _CHARSET.search(content[:4096]) if format == "html" else None
    return cast("Document[Content]", _Encoded(content, found[1].decode() if found else "utf-8", read))


class _Encoded:
    """A text document as the bytes of a file; a byte order mark stays."""

    def __init__(self, content: bytes, charset: str, read: Callable[[str], Document[str]]) -> None:
        self._mark = codecs.BOM_UTF8 if content.startswith(codecs.BOM_UTF8) else b""
        try:
            if (known := "utf-8" if self._mark else known_encoding(charset)) is None:
                raise LookupError
            self._charset = known
            text = content[len(self._mark) :].decode(known)
        except UnicodeDecodeError as error:
            raise InputError(
                f"byte {error.start + 1} of the document is not valid {self._charset}; convert it to UTF-8."
            ) from error
        except LookupError as error:
            raise InputError(
                f"the document says that it is in {charset!r:.60}, which cannot be read; convert it to UTF-8."
            ) from error
        self._document = read(text)

    @property
    def segments(self) -> Sequence[Segment]:
        """Those of the text."""
        return self._document.segments

    def relabel(self, source: str, target: str) -> None:
        """That of the text, if it says its language."""
        if relabel := getattr(self._document, "relabel", None):
            relabel(source, target)

    def write(self, translated: Sequence[Sequence[Part]]) -> bytes:
        """The bytes; in HTML what the encoding lacks is written by its number."""
        how = "xmlcharrefreplace" if isinstance(self._document, HtmlDocument) else "strict"
        text: Any = self._document.write(translated)
        return self._mark + cast(bytes, text.encode(self._charset, how))
