"""The formats of documents by name and by suffix."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from sharpbeam.documents.formats.encoded import HTML_CHARSET, XML_CHARSET, EncodedDocument
from sharpbeam.documents.formats.html import HtmlDocument, XhtmlDocument
from sharpbeam.documents.formats.interface import Content, Document
from sharpbeam.documents.formats.key_values import PropertiesDocument, StringsDocument
from sharpbeam.documents.formats.markdown import MarkdownDocument
from sharpbeam.documents.formats.packages import DocxDocument, EpubDocument, OpenDocument, PptxDocument, XlsxDocument
from sharpbeam.documents.formats.po import PoDocument
from sharpbeam.documents.formats.string_files import AndroidDocument, XliffDocument
from sharpbeam.documents.formats.subtitles import AssDocument, SubtitleDocument
from sharpbeam.documents.formats.tables import ArbDocument, CsvDocument, JsonDocument
from sharpbeam.documents.formats.text import TextDocument
from sharpbeam.errors import InputError, OptionError, nearest
from sharpbeam.options.schema import require


@dataclass(frozen=True)
class Format:
    """A format: its suffixes, and what reads it."""

    suffixes: tuple[str, ...]
    text: Callable[[str], Document[str]] | None = None
    fields: Callable[[str, Sequence[str]], Document[str]] | None = None  # text, of which some fields are translated
    binary: Callable[[bytes], Document[bytes]] | None = None
    otherwise: str = ""  # the encoding of a text that is not in UTF-8
    charset: re.Pattern[bytes] | None = None  # of text: where a file names its encoding


FORMATS = {
    "text": Format((".txt", ".text"), text=TextDocument),
    "html": Format((".html", ".htm"), text=HtmlDocument, charset=HTML_CHARSET),
    "xhtml": Format((".xhtml",), text=XhtmlDocument, charset=XML_CHARSET),
    "markdown": Format((".md", ".markdown"), text=MarkdownDocument),
    "subtitles": Format((".srt", ".vtt"), text=SubtitleDocument),
    "ass": Format((".ass", ".ssa"), text=AssDocument),
    "po": Format((".po", ".pot"), text=PoDocument),
    "xliff": Format((".xliff", ".xlf"), text=XliffDocument, charset=XML_CHARSET),
    "android": Format((".xml",), text=AndroidDocument, charset=XML_CHARSET),
    "strings": Format((".strings",), text=StringsDocument),
    "properties": Format((".properties",), text=PropertiesDocument, otherwise="iso8859-1"),
    "arb": Format((".arb",), text=ArbDocument),
    "json": Format((".json", ".jsonl"), fields=JsonDocument),
    "csv": Format((".csv", ".tsv"), fields=CsvDocument),
    "docx": Format((".docx",), binary=DocxDocument),
    "pptx": Format((".pptx",), binary=PptxDocument),
    "xlsx": Format((".xlsx",), binary=XlsxDocument),
    "odt": Format((".odt", ".odp", ".ods"), binary=OpenDocument),
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
    return cast("Document[Content]", EncodedDocument(content, read, known.charset, known.otherwise))
