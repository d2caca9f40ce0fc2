"""Documents that are zip archives: what is in them, with limits, and EPUB books."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from html import escape

from sharpbeam.documents.formats.html import XhtmlDocument, relabeled
from sharpbeam.documents.formats.html_tokens import unescape
from sharpbeam.documents.formats.interface import Template
from sharpbeam.documents.segment import Part, Segment, check_count, is_translatable, written
from sharpbeam.errors import InputError

MOST_MEMBERS = 20_000
MOST_BYTES = 64 << 20  # of all members, unpacked
MOST_MARKUP = 32 << 20  # of those that are XML or HTML
MOST_NODES = 2_000_000  # elements and attributes: a tree takes some 100 bytes for each
MARKUP = (".xml", ".rels", ".opf", ".ncx", ".xhtml", ".html", ".htm")
_BLOCK = 1 << 20
_FACT = re.compile(r"<dc:(title|language)(?=[\s>])[^<>]*>([^<]*)")


class Archive:
    """The members of a zip file in their order; raises InputError for one that is broken, encrypted or a bomb."""

    def __init__(self, content: bytes, kind: str) -> None:
        self._nodes: dict[str, int] = {}
        try:
            if content.count(b"PK\1\2") > MOST_MEMBERS:  # before a list of them is made
                raise InputError(f"the document has more than {MOST_MEMBERS:,} members.")
            self._zip = zipfile.ZipFile(io.BytesIO(content))
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
            raise InputError(f"the document is not {kind}: {error}.") from error
        members = self._zip.infolist()
        self.names = [member.filename for member in members]
        total = sum(member.file_size for member in members)
        markup = sum(member.file_size for member in members if member.filename.lower().endswith(MARKUP))
        if total > MOST_BYTES or markup > MOST_MARKUP:
            raise InputError(
                f"the document unpacks to {total >> 20} MiB, {markup >> 20} of them XML; at most "
                f"{MOST_BYTES >> 20} MiB and {MOST_MARKUP >> 20} of XML are read: take out pictures, or split it."
            )
        if any(member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for member in members):
            raise InputError(f"the document is packed in a way that {kind} is not; pack it again.")
        if len(set(self.names)) < len(members):
            raise InputError("the document has two members of one name.")

    def read(self, name: str) -> bytes:
        """The bytes of a member, as many as the list of members says."""
        try:
            with self._zip.open(name) as member:  # read as a whole, it is unpacked before its size is looked at
                content = b"".join(iter(lambda: member.read(_BLOCK), b""))
        except (LookupError, RuntimeError, zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
            raise InputError(f"{name} in the document cannot be read: {error}.") from error
        if name.lower().endswith(MARKUP):
            self._nodes[name] = content.count(b"<") + content.count(b"=")
            if sum(self._nodes.values()) > MOST_NODES:
                raise InputError(f"the document has more than {MOST_NODES:,} elements and attributes; split it.")
        return content

    def replaced(self, new: Mapping[str, bytes]) -> bytes:
        """The archive with other bytes for some members; order, times and packing stay."""
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as file:
            for member in self._zip.infolist():
                file.writestr(member, new.get(member.filename) or self.read(member.filename))
        return out.getvalue()


class _Package(Template):
    """The page that says what a book is: its titles, and its languages."""

    def __init__(self, content: str) -> None:
        super().__init__()
        at = 0
        for fact in _FACT.finditer(content):
            title = unescape(fact[2])
            self.keep(content[at : fact.start(2)])
            if fact[1] == "language":
                self.keep_root(fact[2])
            elif is_translatable(title):
                self.put(Segment(" ".join(title.split())))
            else:
                self.keep(fact[2])
            at = fact.end(2)
        self.keep(content[at:])

    def relabel(self, source: str, target: str) -> None:
        """Change the language."""
        self.rewrite_roots(lambda code: relabeled(code.strip(), source, target))

    def write(self, translated: Sequence[Sequence[Part]]) -> str:
        """The page."""
        return self.filled([written(list(parts), escape) for parts in translated])


class EpubDocument:
    """A book: its pages, its title, and its table of contents."""

    def __init__(self, content: bytes) -> None:
        self._archive = Archive(content, "an EPUB book")
        if "META-INF/container.xml" not in self._archive.names:
            raise InputError("the document has no META-INF/container.xml; it is not an EPUB book.")
        if "META-INF/encryption.xml" in self._archive.names:
            fonts = b"idpf.org/2008/embedding" in self._archive.read("META-INF/encryption.xml")
            if not fonts:
                raise InputError("the book is encrypted; it cannot be read.")
        self._pages: dict[str, XhtmlDocument | _Package] = {}
        count = 0
        for name in self._archive.names:
            ending = posixpath.splitext(name)[1].lower()
            if ending in (".xhtml", ".html", ".htm", ".ncx", ".opf"):
                try:
                    text = self._archive.read(name).decode("utf-8-sig")
                except UnicodeDecodeError as error:
                    raise InputError(f"{name} in the book is not UTF-8.") from error
                self._pages[name] = (_Package if ending == ".opf" else XhtmlDocument)(text)
                count = check_count(count, self._pages[name].segments)

    @property
    def segments(self) -> Sequence[Segment]:
        """Those of all pages."""
        return [segment for page in self._pages.values() for segment in page.segments]

    def relabel(self, source: str, target: str) -> None:
        """Change the language of all pages, and that of the book."""
        for page in self._pages.values():
            page.relabel(source, target)

    def write(self, translated: Sequence[Sequence[Part]]) -> bytes:
        """The book."""
        new, first = {}, 0
        for name, page in self._pages.items():
            last = first + len(page.segments)
            new[name] = page.write(translated[first:last]).encode()
            first = last
        return self._archive.replaced(new)
