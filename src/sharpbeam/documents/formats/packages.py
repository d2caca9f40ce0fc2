"""Documents that are zip archives of pages, read with limits: DOCX, PPTX, XLSX, ODT and EPUB."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

from sharpbeam.documents.formats.html import XHTML, relabeled
from sharpbeam.documents.formats.interface import XML_CHARSET, EncodedDocument, Languages
from sharpbeam.documents.formats.xml import Rules, XmlDocument
from sharpbeam.errors import InputError
from sharpbeam.text.segment import Part, Segment, check_count
from sharpbeam.text.xml_tokens import xml_tokens

MOST_MEMBERS = 20_000
MOST_BYTES = 64 << 20  # of all members, unpacked
MOST_MARKUP = 32 << 20  # of those that are XML or HTML
MOST_NODES = 2_000_000  # elements and attributes: a tree takes some 100 bytes for each
MARKUP = (".xml", ".rels", ".opf", ".ncx", ".xhtml", ".html", ".htm")
_BLOCK = 1 << 20
_ESCAPE = re.compile(r"[/\\]|[A-Za-z]:|(?:.*[/\\])?\.\.(?:[/\\]|\Z)")  # begins a path that leads out of the archive
_ENCRYPTION = "META-INF/encryption.xml"
_ESCAPED = re.compile(r"_x([0-9a-fA-F]{4})_")  # a sign in names of Excel
_OFFICE_LANGUAGE = re.compile(r'(<(?:w:lang\b[^<>]*?\sw:val|a:(?:r|endParaR|defR)Pr\b[^<>]*?\slang)=")([\w-]+)')
_ODF_LANGUAGE = re.compile(r'(\sfo:language=")([\w-]+)("\s+fo:country=")([\w-]+)')
_BOOK_LANGUAGE = re.compile(r"(<dc:language\b[^<>]*>\s*)([\w-]+)")


def _languages(pattern: re.Pattern[str]) -> Callable[[str, Languages], str]:
    return lambda page, languages: pattern.sub(lambda code: code[1] + relabeled(code[2], languages), page)


def _odf_languages(page: str, languages: Languages) -> str:
    def relabel(code: re.Match[str]) -> str:
        language, _, country = relabeled(f"{code[2]}-{code[4]}", languages).partition("-")
        return code[1] + language + code[3] + (country or "none")

    return _ODF_LANGUAGE.sub(relabel, page)


OFFICE = Rules(
    blocks=frozenset(("w:p", "a:p", "s:si", "s:is", "s:text")),
    inline=frozenset(
        ("w:hyperlink", "w:ins", "w:moveTo", "w:smartTag", "w:sdt", "w:sdtContent", "w:customXml", "w:dir", "w:bdo")
    ),
    breaks=frozenset(("w:br", "w:cr", "w:tab", "w:ptab", "a:br", "a:endParaRPr", "s:phoneticPr")),
    runs=frozenset(("w:r", "a:r", "s:r")),
    properties=frozenset(("w:rPr", "a:rPr", "s:rPr")),
    texts=frozenset(("w:t", "a:t", "s:t")),
    dropped=frozenset(("w:proofErr", "w:lastRenderedPageBreak", "s:rPh")),  # the last: how the source is read
    letters={"w:noBreakHyphen": "\u2011"},
    relabel=_languages(_OFFICE_LANGUAGE),
)
OPEN_DOCUMENT = Rules(
    blocks=frozenset(("text:p", "text:h")),
    inline=frozenset(("text:span", "text:a", "text:meta")),
    breaks=frozenset(("text:line-break", "text:tab")),
    letters={"text:s": " "},
    kept=frozenset(("text:tracked-changes",)),
    collapse=True,
    relabel=_odf_languages,
)
PUBLICATION = Rules(blocks=frozenset(("dc:title",)), collapse=True, relabel=_languages(_BOOK_LANGUAGE))


class PackageDocument:
    """A document that is an archive; it is refused if that is broken, encrypted or a bomb."""

    def __init__(self, content: bytes, kind: str, member: str, pages: Mapping[str, Rules | None]) -> None:
        """`kind` is for errors, `member` in every such archive; `pages` by patterns of their names, None: XHTML."""
        self._zip = _opened(content, kind)
        self._names = [each.filename for each in self._zip.infolist()]
        self._nodes: dict[str, int] = {}
        if member not in self._names:
            raise InputError(f"the document has no {member}; it is not {kind}.")
        if _ENCRYPTION in self._names and b"idpf.org/2008/embedding" not in self._read(_ENCRYPTION):  # fonts
            raise InputError("the document is encrypted; it cannot be read.")
        columns = frozenset(self._columns())
        self._pages: dict[str, EncodedDocument] = {}
        self.segments: list[Segment] = []
        count = 0
        for name in self._names:
            for rules in (own for pattern, own in pages.items() if re.fullmatch(pattern, name)):
                read = partial(XmlDocument, rules=replace(rules, names=columns)) if rules else XHTML
                try:
                    self._pages[name] = EncodedDocument(self._read(name), read, XML_CHARSET)
                except InputError as error:
                    raise InputError(f"{name}: {error}") from error
                count = check_count(count, self._pages[name].segments)
                self.segments += self._pages[name].segments

    def _read(self, name: str) -> bytes:
        """The bytes of a member, as many as the list of members says."""
        try:
            with self._zip.open(name) as member:  # read as a whole, it is unpacked before its size is looked at
                content = b"".join(iter(lambda: member.read(_BLOCK), b""))
        except (LookupError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
            raise InputError(f"{name} in the document cannot be read: {error}.") from error
        if name.lower().endswith(MARKUP):
            self._nodes[name] = content.count(b"<") + content.count(b"=")
            if sum(self._nodes.values()) > MOST_NODES:
                raise InputError(f"the document has more than {MOST_NODES:,} elements and attributes; split it.")
        return content

    def _columns(self) -> Iterator[str]:
        """Names of columns of tables of Excel. Cells with such a text stay: the table has the name too."""
        for name in self._names:
            if re.fullmatch(r"xl/tables/[^/]+\.xml", name):
                for token in xml_tokens(self._read(name).decode("utf-8-sig", "replace")):
                    if token.name == "s:tableColumn":
                        yield _ESCAPED.sub(lambda code: chr(int(code[1], 16)), token.attributes.get("name", ""))

    def write(self, translated: Sequence[Sequence[Part]], languages: Languages = ("", "")) -> bytes:
        """The archive; order, times and packing of its members stay."""
        rest, out = iter(translated), io.BytesIO()
        new = {
            name: page.write(list(islice(rest, len(page.segments))), languages) for name, page in self._pages.items()
        }
        with zipfile.ZipFile(out, "w") as file:
            for member in self._zip.infolist():
                file.writestr(member, new.get(member.filename) or self._read(member.filename))
        return out.getvalue()


def _opened(content: bytes, kind: str) -> zipfile.ZipFile:
    """A zip file that is within the limits."""
    try:
        if content.count(b"PK\1\2") > MOST_MEMBERS:  # before a list of them is made
            raise InputError(f"the document has more than {MOST_MEMBERS:,} members.")
        archive = zipfile.ZipFile(io.BytesIO(content))
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise InputError(f"the document is not {kind}: {error}.") from error
    members = archive.infolist()
    names = [member.filename for member in members]
    total = sum(member.file_size for member in members)
    markup = sum(member.file_size for member in members if member.filename.lower().endswith(MARKUP))
    if total > MOST_BYTES or markup > MOST_MARKUP:
        raise InputError(
            f"the document unpacks to {total >> 20} MiB, {markup >> 20} of them XML; at most "
            f"{MOST_BYTES >> 20} MiB and {MOST_MARKUP >> 20} of XML are read: take out pictures, or split it."
        )
    if any(member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for member in members):
        raise InputError(f"the document is packed in a way that {kind} is not; pack it again.")
    if name := next((name for name in names if _ESCAPE.match(name)), ""):
        raise InputError(f"the document has a member {name!r:.80}, which is outside of it; refused.")
    if len(set(names)) < len(names):
        raise InputError("the document has two members of one name.")
    return archive


DOCX = partial(
    PackageDocument,
    kind="a DOCX file",
    member="word/document.xml",
    pages={r"word/(document|header\d*|footer\d*|footnotes|endnotes|comments)\.xml": OFFICE},
)
PPTX = partial(
    PackageDocument,
    kind="a PPTX file",
    member="ppt/presentation.xml",
    pages={r"ppt/(slides|notesSlides|comments|charts|diagrams)/[^/]+\.xml": OFFICE},
)
XLSX = partial(
    PackageDocument,
    kind="an XLSX file",
    member="xl/workbook.xml",
    pages={r"xl/(sharedStrings|(comments/)?comments?\d*|(worksheets|drawings|charts)/[^/]+)\.xml": OFFICE},
)
ODF = partial(
    PackageDocument, kind="an OpenDocument file", member="content.xml", pages={r"(content|styles)\.xml": OPEN_DOCUMENT}
)
EPUB = partial(
    PackageDocument,
    kind="an EPUB book",
    member="META-INF/container.xml",
    pages={r"(?i).*\.(xhtml|html?|ncx)": None, r"(?i).*\.opf": PUBLICATION},
)
