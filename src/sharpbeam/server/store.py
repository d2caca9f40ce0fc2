"""A store of what clients leave with a server: ids that cannot be guessed, a bounded space, for a while."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from sharpbeam.server.refusals import Refused
from sharpbeam.storage.atomic import lock

T = TypeVar("T")
LIFETIME = 900.0  # seconds that a translation can be downloaded
SPACE = 16  # files of the largest size that there is space for
LEAST = 64 * 1024  # bytes that a file counts as at least
PREFIX = "sharpbeam-server-"
YOUNG = 60.0  # seconds in which a folder may not be locked yet


@dataclass(frozen=True)
class Item(Generic[T]):
    """A value of a client."""

    client: str
    value: T
    size: int
    time: float  # since the epoch


class Store(Generic[T]):
    """Values by id; where there is no space, the oldest one leaves of the client that takes most."""

    def __init__(self, noun: str, space: int, lifetime: float = LIFETIME) -> None:
        """There is space for sizes of `space` together, for `lifetime` seconds each."""
        self._noun, self._space, self._lifetime = noun, space, lifetime
        self._items: dict[str, Item[T]] = {}  # the oldest first

    def put(self, client: str, value: T, size: int = 1, id: str = "") -> str:
        """Keep a value under a new id, which it returns."""
        id, now = id or new_id(), time.time()
        for old in [old for old, item in self._items.items() if now - item.time > self._lifetime]:
            self.delete(old)
        sizes = Counter({client: size})
        for item in self._items.values():
            sizes[item.client] += item.size
        while self._items and sizes.total() > self._space:
            (most, _), *_ = sizes.most_common(1)
            oldest = next((old for old, item in self._items.items() if item.client == most), next(iter(self._items)))
            sizes[self._items[oldest].client] -= self._items[oldest].size
            self.delete(oldest)
        self._items[id] = Item(client, value, size, now)
        return id

    def get(self, id: str, client: str = "") -> Item[T]:
        """The item with an id, of any client or of one; raises Refused if there is none, or it is too old."""
        item = self._items.get(id)
        if item is None or time.time() - item.time > self._lifetime or client not in ("", item.client):
            raise Refused(404, f"there is no such {self._noun}, or no longer")
        return item

    def of(self, client: str) -> list[tuple[str, Item[T]]]:
        """The ids and items of a client, the oldest first."""
        return [(id, item) for id, item in self._items.items() if item.client == client]

    def delete(self, id: str) -> None:
        """Forget a value."""
        del self._items[id]


class Files(Store[Path]):
    """Files in a folder. Of a client's file name only its format's suffix is used."""

    def __init__(self, largest: int, folder: Path) -> None:
        """There is space for SPACE files of `largest` bytes, and for more that are smaller."""
        super().__init__("file", SPACE * largest)
        self._folder = folder

    def write(self, content: bytes, suffix: str, client: str) -> str:
        """Keep a file of a client; returns its name. Raises Refused where the disk is full."""
        name = new_id() + suffix
        path = self._folder / name
        self.put(client, path, max(len(content), LEAST), name)
        try:
            path.write_bytes(content)
        except OSError as error:
            self.delete(name)
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise Refused(507, "the disk of the server is full" if full else "the server cannot write files") from None
        return name

    def delete(self, id: str) -> None:
        """Forget and delete a file."""
        self._items.pop(id).value.unlink(missing_ok=True)


def new_id() -> str:
    """An id of 144 random bits."""
    return secrets.token_urlsafe(18)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that is locked while this process lives; those of this user's servers that were killed are deleted."""
    for old in Path(tempfile.gettempdir()).glob(f"{PREFIX}*") if hasattr(os, "getuid") else ():
        with suppress(OSError):
            facts = old.lstat()
            if facts.st_uid != os.getuid() or time.time() - facts.st_mtime < YOUNG:
                continue
            if (handle := lock(old)) is not None:
                shutil.rmtree(old, ignore_errors=True)
                os.close(handle)
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
        descriptor = lock(Path(name))
        try:
            yield Path(name)
        finally:
            if descriptor is not None:
                os.close(descriptor)
