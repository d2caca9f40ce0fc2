"""Documents that are zip archives: what is in them, with limits, and EPUB books."""

from __future__ import annotations

import io
import posixpath
import zipfile
import zlib
from collections.abc import Mapping, Sequence

from sharpbeam.documents.formats.html import XhtmlDocument
from sharpbeam.documents.segment import Part, Segment
from sharpbeam.errors import InputError

MOST_MEMBERS = 20_000
MOST_BYTES = 512 << 20  # of all members, unpacked
MOST_RATIO = 200  # of a member above a MiB to its packed size: text packs by 3 to 20


class Archive:
    """The members of a zip file in their order; raises InputError for one that is broken, encrypted or a bomb."""

    def __init__(self, content: bytes, kind: str) -> None:
        self._kind = kind
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(content))
        except (zipfile.BadZipFile, ValueError, OSError) as error:
            raise InputError(f"the document is not {kind}: {error}.") from error
        members = self._zip.infolist()
        self.names = [member.filename for member in members]
        total = sum(member.file_size for member in members)
        packed = any(m.file_size > max(1 << 20, MOST_RATIO * max(1, m.compress_size)) for m in members)
        if len(members) > MOST_MEMBERS or total > MOST_BYTES or packed:
            raise InputError(
                f"the document unpacks to {len(members)} members of {total >> 20} MiB; at most {MOST_MEMBERS} members, "
                f"{MOST_BYTES >> 20} MiB and {MOST_RATIO} times their packed size are read."
            )
        if len(set(self.names)) < len(members):
            raise InputError("the document has two members of one name.")

    def read(self, name: str) -> bytes:
        """The bytes of a member."""
        try:
            return self._zip.read(name)
        except (KeyError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise InputError(f"{name} in the document cannot be read: {error}.") from error

    def replaced(self, new: Mapping[str, bytes]) -> bytes:
        """The archive with other bytes for some members; order, times and packing stay."""
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as file:
            for member in self._zip.infolist():
                file.writestr(member, new.get(member.filename) or self.read(member.filename))
        return out.getvalue()


class EpubDocument:
    """A book: its pages, and its table of contents."""

    def __init__(self, content: bytes) -> None:
        self._archive = Archive(content, "an EPUB book")
        if "META-INF/container.xml" not in self._archive.names:
            raise InputError("the document has no META-INF/container.xml; it is not an EPUB book.")
        if "META-INF/encryption.xml" in self._archive.names:
            fonts = b"idpf.org/2008/embedding" in self._archive.read("META-INF/encryption.xml")
            if not fonts:
                raise InputError("the book is encrypted; it cannot be read.")
        self._pages: dict[str, XhtmlDocument] = {}
        for name in self._archive.names:
            if posixpath.splitext(name)[1].lower() in (".xhtml", ".html", ".htm", ".ncx"):
                try:
                    self._pages[name] = XhtmlDocument(self._archive.read(name).decode("utf-8-sig"))
                except UnicodeDecodeError as error:
                    raise InputError(f"{name} in the book is not UTF-8.") from error

    @property
    def segments(self) -> Sequence[Segment]:
        """Those of all pages."""
        return [segment for page in self._pages.values() for segment in page.segments]

    def relabel(self, source: str, target: str) -> None:
        """Change the `lang` of all pages."""
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
