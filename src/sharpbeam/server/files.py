"""Translated files that wait to be downloaded: under names that cannot be guessed, for a while, in a folder of ours."""

from __future__ import annotations

import errno
import re
import secrets
import tempfile
import time
from pathlib import Path

from sharpbeam.server.refusals import Refused
from sharpbeam.server.share import Share

KEPT = 900.0  # seconds that a file can be downloaded
MOST = 200  # files; the oldest leaves first
NAME = re.compile(r"[A-Za-z0-9_-]{24}\.[a-z0-9]{1,9}")


class Files:
    """The files of one server, in all its processes. Of a client's file name only its format's suffix is used."""

    def __init__(self, share: Share | None = None) -> None:
        self._own = None if share else tempfile.TemporaryDirectory(prefix="sharpbeam-")
        self._folder = Path(self._own.name) if self._own else share.folder / "files"  # type: ignore[union-attr]
        self._folder.mkdir(mode=0o700, exist_ok=True)

    def put(self, content: bytes, suffix: str) -> str:
        """Keep a file; returns its name. Raises Refused where the disk is full."""
        self._forget()
        name = secrets.token_urlsafe(18) + suffix
        path = self._folder / name
        try:
            path.write_bytes(content)
        except OSError as error:
            path.unlink(missing_ok=True)
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise Refused(507, "the disk of the server is full" if full else "the server cannot write files") from None
        return name

    def path(self, name: str) -> Path:
        """Where a file is; raises Refused for a name that was not given out, or that is too old."""
        self._forget()
        if not NAME.fullmatch(name) or not (self._folder / name).is_file():
            raise Refused(404, "Invalid filename: there is no such file, or no longer")
        return self._folder / name

    def close(self) -> None:
        """Delete all files, unless other processes have them too."""
        if self._own:
            self._own.cleanup()

    def _forget(self) -> None:
        ages: list[tuple[float, Path]] = []
        for path in self._folder.iterdir():
            try:
                ages.append((time.time() - path.stat().st_mtime, path))
            except FileNotFoundError:  # another process was faster
                continue
        for rank, (age, path) in enumerate(sorted(ages)):
            if age > KEPT or rank >= MOST - 1:
                path.unlink(missing_ok=True)
