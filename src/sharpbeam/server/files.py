"""Translated files that wait to be downloaded: under names that cannot be guessed, for a while, in a folder of ours."""

from __future__ import annotations

import errno
import secrets
import tempfile
import time
from collections import OrderedDict
from pathlib import Path

from sharpbeam.server.refusals import Refused

KEPT = 900.0  # seconds that a file can be downloaded
MOST = 200  # files; the oldest leaves first


class Files:
    """The files of one server. Nothing of a client's file name but the kind of its format is ever used."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sharpbeam-")
        self._known: OrderedDict[str, float] = OrderedDict()  # when each was made, by name

    def put(self, content: bytes, suffix: str) -> str:
        """Keep a file; returns its name. Raises Refused where the disk is full."""
        self._forget()
        name = secrets.token_urlsafe(18) + suffix
        path = self._path(name)
        try:
            path.write_bytes(content)
        except OSError as error:
            path.unlink(missing_ok=True)
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise Refused(507, "the disk of the server is full" if full else "the server cannot write files") from None
        self._known[name] = time.monotonic()
        return name

    def path(self, name: str) -> Path:
        """Where a file is; raises Refused for a name that was not given out, or that is too old."""
        self._forget()
        if name not in self._known:
            raise Refused(404, "Invalid filename: there is no such file, or no longer")
        return self._path(name)

    def close(self) -> None:
        """Delete all files."""
        self._folder.cleanup()

    def _path(self, name: str) -> Path:
        return Path(self._folder.name, name)

    def _forget(self) -> None:
        before = time.monotonic() - KEPT
        while self._known and (len(self._known) >= MOST or next(iter(self._known.values())) < before):
            name, _ = self._known.popitem(last=False)
            self._path(name).unlink(missing_ok=True)
