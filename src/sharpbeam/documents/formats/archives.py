"""Zip archives: what is in them, with limits."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Mapping

from sharpbeam.errors import InputError

MOST_MEMBERS = 20_000
MOST_BYTES = 64 << 20  # of all members, unpacked
MOST_MARKUP = 32 << 20  # of those that are XML or HTML
MOST_NODES = 2_000_000  # elements and attributes: a tree takes some 100 bytes for each
MARKUP = (".xml", ".rels", ".opf", ".ncx", ".xhtml", ".html", ".htm")
_BLOCK = 1 << 20
_ESCAPE = re.compile(r"[/\\]|[A-Za-z]:|(?:.*[/\\])?\.\.(?:[/\\]|\Z)")  # begins a path that leads out of the archive


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
        if name := next((name for name in self.names if _ESCAPE.match(name)), ""):
            raise InputError(f"the document has a member {name!r:.80}, which is outside of it; refused.")
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
