"""Requests of each client in the last minute, counted over all processes of a server."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

MOST_CLIENTS = 10_000  # that are remembered; the one that came longest ago is forgotten
TIDY = 1000  # requests after which clients are forgotten


class Rates:
    """A bucket for each client, which fills in a minute. A process that is killed leaves none of them locked."""

    def __init__(self, per_minute: int, file: Path | None) -> None:
        """`file` is that of all processes; None: there is one. 0 `per_minute` allows everything."""
        self._per_minute, self._requests = per_minute, 0
        if per_minute:
            self._buckets = sqlite3.connect(file or ":memory:", 5.0, isolation_level=None, check_same_thread=False)
            self._buckets.execute("PRAGMA journal_mode = WAL")
            self._buckets.execute("PRAGMA synchronous = OFF")  # the file is of no use after a crash of the machine
            self._buckets.execute(
                "CREATE TABLE IF NOT EXISTS bucket (client TEXT PRIMARY KEY, content REAL, since REAL) WITHOUT ROWID"
            )

    def count(self, client: str, requests: int = 1) -> float:
        """Count a request of `client`, or only look (0); returns 0, or the seconds after which it may come again."""
        if not self._per_minute:
            return 0.0
        now, most = time.monotonic(), float(self._per_minute)
        self._requests += 1
        buckets = self._buckets
        buckets.execute("BEGIN IMMEDIATE")
        try:
            row = buckets.execute("SELECT content, since FROM bucket WHERE client = ?", (client,)).fetchone()
            content, since = row or (most, now)
            content = min(most, content + (now - since) * most / 60)
            rest = content - requests if content >= 1 else content
            buckets.execute("REPLACE INTO bucket VALUES (?, ?, ?)", (client, rest, now))
            if self._requests % TIDY == 0:
                last = "SELECT since FROM bucket ORDER BY since DESC LIMIT 1 OFFSET ?"
                buckets.execute(f"DELETE FROM bucket WHERE since <= ({last})", (MOST_CLIENTS,))
        finally:
            buckets.execute("COMMIT")
        return 0.0 if content >= 1 else (1 - content) * 60 / most
