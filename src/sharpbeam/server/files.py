"""Files of clients in a folder of the server: under names that cannot be guessed, for a while."""

from __future__ import annotations

import errno
import re
import secrets
import time
from hashlib import sha256
from pathlib import Path

from sharpbeam.server.refusals import Refused

LIFETIME = 900.0  # seconds that a file can be downloaded
SPACE = 16  # files of the largest size that there is space for
LEAST = 64 * 1024  # bytes that a file counts as at least
NAME = re.compile(r"[A-Za-z0-9_-]{24}\.[a-z0-9]{1,9}")


class Files:
    """Files of one kind, in all processes of a server. Of a client's file name only its format's suffix is used."""

    def __init__(self, largest: int, folder: Path, lifetime: float = LIFETIME) -> None:
        """There is space for SPACE files of `largest` bytes, and for more that are smaller, for `lifetime` seconds."""
        self._space, self._folder, self._lifetime = SPACE * largest, folder, lifetime
        self._folder.mkdir(mode=0o700, exist_ok=True)

    def put(self, content: bytes, suffix: str, client: str) -> str:
        """Keep a file of a client; returns its name. Raises Refused where the disk is full.

        Where there is no space, the oldest file leaves of the client that takes most.
        """
        name = secrets.token_urlsafe(18) + suffix
        path = self._folder / f"{_digest(client)}.{name}"
        self._free_space(path, len(content))
        try:
            path.write_bytes(content)
        except OSError as error:
            path.unlink(missing_ok=True)
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise Refused(507, "the disk of the server is full" if full else "the server cannot write files") from None
        return name

    def path(self, name: str, client: str = "") -> Path:
        """The place of a file, of any client or of one; raises Refused for an unknown name, and one that is too old."""
        if NAME.fullmatch(name):
            for path in self._folder.glob(f"{_digest(client) if client else '*'}.{name}"):
                if time.time() - path.stat().st_mtime <= self._lifetime:
                    return path
        raise Refused(404, "Invalid filename: there is no such file, or no longer")

    def names(self, client: str) -> list[str]:
        """The names of the files of a client."""
        return [path.name.partition(".")[2] for path in self._folder.glob(f"{_digest(client)}.*")]

    def _free_space(self, new: Path, size: int) -> None:
        """Delete files that are too old, and as many as take the space of `new`."""
        sizes = {_client(new): max(size, LEAST)}
        files: list[tuple[float, int, Path]] = []
        for path in self._folder.iterdir():
            try:
                facts = path.stat()
            except FileNotFoundError:  # another process was faster
                continue
            if time.time() - facts.st_mtime > self._lifetime:
                path.unlink(missing_ok=True)
                continue
            files.append((facts.st_mtime, max(facts.st_size, LEAST), path))
            sizes[_client(path)] = sizes.get(_client(path), 0) + files[-1][1]
        while files and sum(sizes.values()) > self._space:
            most = max(sizes, key=lambda client: sizes[client])
            oldest = min((each for each in files if _client(each[2]) == most), default=min(files))
            files.remove(oldest)
            sizes[_client(oldest[2])] -= oldest[1]
            oldest[2].unlink(missing_ok=True)


def _client(path: Path) -> str:
    return path.name.partition(".")[0]


def _digest(client: str) -> str:
    return sha256(client.encode()).hexdigest()
