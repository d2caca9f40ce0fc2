"""Documents that are zip archives of pages: DOCX, PPTX, XLSX, ODT and EPUB."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from sharpbeam.documents.formats.archives import Archive
from sharpbeam.documents.formats.encoded import XML_CHARSET, EncodedDocument
from sharpbeam.documents.formats.html import XhtmlDocument, relabeled
from sharpbeam.documents.formats.interface import Document
from sharpbeam.documents.formats.xml import Rules, XmlDocument
from sharpbeam.documents.segment import Part, Segment, check_count
from sharpbeam.errors import InputError
from sharpbeam.text.xml_tokens import xml_tokens

Reader = Callable[[str], Document[str]]
_OFFICE_LANGUAGE = re.compile(r'(<(?:w:lang\b[^<>]*?\sw:val|a:(?:r|endParaR|defR)Pr\b[^<>]*?\slang)=")([\w-]+)')
_ODF_LANGUAGE = re.compile(r'(\sfo:language=")([\w-]+)("\s+fo:country=")([\w-]+)')
_BOOK_LANGUAGE = re.compile(r"(<dc:language\b[^<>]*>\s*)([\w-]+)")


def _languages(pattern: re.Pattern[str]) -> Callable[[str, str, str], str]:
    def relabel(page: str, source: str, target: str) -> str:
        return pattern.sub(lambda code: code[1] + relabeled(code[2], source, target), page)

    return relabel


def _odf_languages(page: str, source: str, target: str) -> str:
    def relabel(found: re.Match[str]) -> str:
        code = f"{found[2]}-{found[4]}"
        language, _, country = relabeled(code, source, target).partition("-")
        return found[1] + language + found[3] + (country or "none")

    return _ODF_LANGUAGE.sub(relabel, page)


OFFICE = Rules(
    blocks=frozenset(("w:p", "a:p", "s:si", "s:is", "s:text")),
    inline=frozenset(("w:hyperlink", "w:ins", "w:smartTag")),
    breaks=frozenset(("w:br", "w:tab", "a:br")),
    runs=frozenset(("w:r", "a:r", "s:r")),
    properties=frozenset(("w:rPr", "a:rPr", "s:rPr")),
    texts=frozenset(("w:t", "a:t", "s:t")),
    dropped=frozenset(("w:proofErr", "w:lastRenderedPageBreak")),
    letters={"w:noBreakHyphen": "\u2011"},
    relabel=_languages(_OFFICE_LANGUAGE),
)
OPEN_DOCUMENT = Rules(
    blocks=frozenset(("text:p", "text:h")),
    inline=frozenset(("text:span", "text:a")),
    breaks=frozenset(("text:line-break", "text:tab")),
    kept=frozenset(("text:tracked-changes",)),
    collapse=True,
    relabel=_odf_languages,
)
PUBLICATION = Rules(blocks=frozenset(("dc:title",)), collapse=True, relabel=_languages(_BOOK_LANGUAGE))


def _office(pattern: str) -> dict[str, Reader]:
    return {rf"{pattern}\.xml": partial(XmlDocument, rules=OFFICE)}


class PackageDocument:
    """A document that is an archive: its kind, a member that each has, and readers of its pages by their names."""

    kind: str
    member: str
    pages: Mapping[str, Reader]

    def __init__(self, content: bytes) -> None:
        self._archive = Archive(content, self.kind)
        if self.member not in self._archive.names:
            raise InputError(f"the document has no {self.member}; it is not {self.kind}.")
        self._pages: dict[str, EncodedDocument] = {}
        count = 0
        for name, read in self.readers():
            try:
                self._pages[name] = EncodedDocument(self._archive.read(name), read, XML_CHARSET)
            except InputError as error:
                raise InputError(f"{name}: {error}") from error
            count = check_count(count, self._pages[name].segments)

    def readers(self) -> Iterator[tuple[str, Reader]]:
        """The pages that are read, by their names, and what reads them."""
        for name in self._archive.names:
            for pattern, read in self.pages.items():
                if re.fullmatch(pattern, name):
                    yield name, read

    @property
    def segments(self) -> Sequence[Segment]:
        """Those of all pages."""
        return [segment for page in self._pages.values() for segment in page.segments]

    def relabel(self, source: str, target: str) -> None:
        """Change the language of all pages."""
        for page in self._pages.values():
            page.relabel(source, target)

    def write(self, translated: Sequence[Sequence[Part]]) -> bytes:
        """The archive."""
        new, first = {}, 0
        for name, page in self._pages.items():
            last = first + len(page.segments)
            new[name] = page.write(translated[first:last])
            first = last
        return self._archive.replaced(new)


class DocxDocument(PackageDocument):
    """A text of Word."""

    kind, member = "a DOCX file", "word/document.xml"
    pages = _office(r"word/(document|header\d*|footer\d*|footnotes|endnotes|comments)")


class PptxDocument(PackageDocument):
    """Slides of PowerPoint, with notes."""

    kind, member = "a PPTX file", "ppt/presentation.xml"
    pages = _office("ppt/(slides|notesSlides|comments|charts|diagrams)/[^/]+")


class XlsxDocument(PackageDocument):
    """A workbook of Excel. Cells whose text is the name of a column of a table stay: the table has the name too."""

    kind, member = "an XLSX file", "xl/workbook.xml"
    pages = _office(r"xl/(sharedStrings|comments\d*|(worksheets|drawings|charts)/[^/]+)")

    def readers(self) -> Iterator[tuple[str, Reader]]:
        """The pages, with the names of columns."""
        columns = frozenset(
            token.attributes.get("name", "")
            for name in self._archive.names
            if re.fullmatch(r"xl/tables/[^/]+\.xml", name)
            for token in xml_tokens(self._archive.read(name).decode("utf-8-sig", "replace"))
            if token.name == "s:tableColumn"
        )
        for name, _ in super().readers():
            yield name, partial(XmlDocument, rules=replace(OFFICE, names=columns))


class OpenDocument(PackageDocument):
    """A text, slides or tables of LibreOffice."""

    kind, member = "an OpenDocument file", "content.xml"
    pages: Mapping[str, Reader] = {r"(content|styles)\.xml": partial(XmlDocument, rules=OPEN_DOCUMENT)}


class EpubDocument(PackageDocument):
    """A book."""

    kind, member = "an EPUB book", "META-INF/container.xml"
    pages: Mapping[str, Reader] = {
        r"(?i).*\.(xhtml|html?|ncx)": XhtmlDocument,
        r"(?i).*\.opf": partial(XmlDocument, rules=PUBLICATION),
    }

    def readers(self) -> Iterator[tuple[str, Reader]]:
        """The pages of a book that is not encrypted."""
        name = "META-INF/encryption.xml"
        if name in self._archive.names and b"idpf.org/2008/embedding" not in self._archive.read(name):  # fonts
            raise InputError("the book is encrypted; it cannot be read.")
        return super().readers()
