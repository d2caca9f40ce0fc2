"""The formats of documents by name and by suffix."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sharpbeam.documents.formats.html import XHTML, HtmlDocument
from sharpbeam.documents.formats.interface import HTML_CHARSET, XML_CHARSET, Content, Document, EncodedDocument
from sharpbeam.documents.formats.markdown import MarkdownDocument
from sharpbeam.documents.formats.packages import DOCX, EPUB, ODF, PPTX, XLSX
from sharpbeam.documents.formats.string_files import ANDROID, XLIFF, AndroidDocument, XliffDocument
from sharpbeam.documents.formats.subtitles import AssDocument, SubtitleDocument
from sharpbeam.documents.formats.tables import ArbDocument, CsvDocument, JsonDocument
from sharpbeam.documents.formats.values import PoDocument, PropertiesDocument, StringsDocument, TextDocument
from sharpbeam.errors import InputError, OptionError, nearest
from sharpbeam.options.schema import require


@dataclass(frozen=True)
class Format:
    """A format: its suffixes, and what reads a text, or a text and its fields, or the bytes of a file."""

    suffixes: tuple[str, ...]
    read: Callable[..., Any]
    fields: bool = False
    binary: bool = False
    otherwise: str = ""  # the encoding of a text that is not in UTF-8
    charset: re.Pattern[bytes] | None = None  # of text: where a file names its encoding


FORMATS = {
    "text": Format((".txt", ".text"), TextDocument),
    "html": Format((".html", ".htm"), HtmlDocument, charset=HTML_CHARSET),
    "xhtml": Format((".xhtml",), XHTML, charset=XML_CHARSET),
    "markdown": Format((".md", ".markdown"), MarkdownDocument),
    "subtitles": Format((".srt", ".vtt"), SubtitleDocument),
    "ass": Format((".ass", ".ssa"), AssDocument),
    "po": Format((".po", ".pot"), PoDocument),
    "xliff": Format((".xliff", ".xlf"), partial(XliffDocument, rules=XLIFF), charset=XML_CHARSET),
    "android": Format((".xml",), partial(AndroidDocument, rules=ANDROID), charset=XML_CHARSET),
    "strings": Format((".strings",), StringsDocument),
    "properties": Format((".properties",), PropertiesDocument, otherwise="iso8859-1"),
    "arb": Format((".arb",), ArbDocument),
    "json": Format((".json", ".jsonl"), JsonDocument, fields=True),
    "csv": Format((".csv", ".tsv"), CsvDocument, fields=True),
    "docx": Format((".docx",), DOCX, binary=True),
    "pptx": Format((".pptx",), PPTX, binary=True),
    "xlsx": Format((".xlsx",), XLSX, binary=True),
    "odt": Format((".odt", ".odp", ".ods"), ODF, binary=True),
    "epub": Format((".epub",), EPUB, binary=True),
}


def format_names() -> tuple[str, ...]:
    """Names of all formats."""
    return tuple(FORMATS)


def format_of(path: Path) -> str:
    """The format of a file by its suffix; raises OptionError for one that is not known."""
    for name, kind in FORMATS.items():
        if path.suffix.lower() in kind.suffixes:
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
    kind = FORMATS[format]
    require(not fields or kind.fields, "fields", fields, f"left out: {format} has none")
    require(isinstance(content, (str, bytes)), "text", content, "a str, or bytes")
    fields = [fields] if isinstance(fields, str) else fields or ()
    read = partial(kind.read, fields=fields) if kind.fields else kind.read
    document: Document[Any]
    if isinstance(content, bytes):
        document = read(content) if kind.binary else EncodedDocument(content, read, kind.charset, kind.otherwise)
    elif kind.binary:
        raise InputError(f"a document of the format {format} is given as bytes, not as str.")
    else:
        try:
            content.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"character {error.start + 1} of the document is half of a surrogate pair.") from error
        document = read(content)
    return document
