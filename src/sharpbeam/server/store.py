"""A store of what clients leave with a server: ids that cannot be guessed, a bounded space in memory, for a while."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from dataclasses import dataclass
from typing import Generic, TypeVar

from sharpbeam.server.refusals import Refused

T = TypeVar("T")
LIFETIME = 900.0  # seconds that a translation can be downloaded


@dataclass(frozen=True)
class Deposit(Generic[T]):
    """A value of a client."""

    client: str
    value: T
    size: int
    time: float  # since the epoch


class Store(Generic[T]):
    """Values by id; where there is no space, the oldest one leaves of the client that takes most."""

    def __init__(self, noun: str, space: int, least: int = 1, lifetime: float = LIFETIME) -> None:
        """There is space for `space` in all; each takes its size, and at least `least`, for `lifetime` seconds."""
        self._noun, self._space, self._least, self._lifetime = noun, space, least, lifetime
        self._items: dict[str, Deposit[T]] = {}  # the oldest first

    def put(self, client: str, value: T, size: int = 1, suffix: str = "") -> str:
        """Keep a value; returns its id: 144 random bits and `suffix`."""
        id, size, now = secrets.token_urlsafe(18) + suffix, max(size, self._least), time.time()
        self._items = {old: item for old, item in self._items.items() if now - item.time <= self._lifetime}
        sizes = Counter({client: size})
        for item in self._items.values():
            sizes[item.client] += item.size
        while self._items and sizes.total() > self._space:
            most = max(sizes, key=lambda client: sizes[client])
            oldest = next((old for old, item in self._items.items() if item.client == most), next(iter(self._items)))
            item = self._items.pop(oldest)
            sizes[item.client] -= item.size
        self._items[id] = Deposit(client, value, size, now)
        return id

    def get(self, id: str, client: str = "") -> Deposit[T]:
        """The item with an id, of any client or of one; raises Refused if there is none, or it is too old."""
        item = self._items.get(id)
        if item is None or time.time() - item.time > self._lifetime or client not in ("", item.client):
            raise Refused(404, f"there is no such {self._noun}, or no longer")
        return item

    def of(self, client: str) -> list[tuple[str, Deposit[T]]]:
        """The ids and items of a client, the oldest first."""
        return [(id, item) for id, item in self._items.items() if item.client == client]

    def delete(self, id: str, client: str) -> None:
        """Forget a value of a client; raises Refused as `get`."""
        self.get(id, client)
        del self._items[id]
