"""Admission: how much work is accepted at a time, and how often a client may come."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from sharpbeam.options.server import ServerOptions
from sharpbeam.server.refusals import Refused

MOST_CLIENTS = 10_000  # that are remembered; the one that came longest ago is forgotten
FORGET = 0.9  # of the measured rate with every finished sentence


class Admission:
    """Counts the accepted sentences that are not answered yet, and the requests of each client in the last minute."""

    def __init__(self, options: ServerOptions) -> None:
        """Only queue_limit and requests_per_minute are used."""
        self._limit, self._per_minute = options.queue_limit, options.requests_per_minute
        self.pending = 0
        """Accepted sentences without an answer."""
        self._seconds = 0.05  # between two finished sentences, while there is work: an average
        self._last = 0.0  # when a sentence was finished, or work began
        self._clients: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens of a bucket, and when counted

    def check_rate(self, client: str) -> None:
        """Count a request of `client`; raises Refused where there were too many. A bucket fills in a minute."""
        if not self._per_minute:
            return
        now, most = time.monotonic(), float(self._per_minute)
        left, since = self._clients.pop(client, (most, now))
        left = min(most, left + (now - since) * most / 60)
        self._clients[client] = (max(left - 1, 0.0) if left >= 1 else left, now)
        if len(self._clients) > MOST_CLIENTS:
            self._clients.popitem(last=False)
        if left < 1:
            raise Refused(429, f"Slowdown: {self._per_minute} requests per minute", (1 - left) * 60 / most)

    @contextmanager
    def accept(self, sentences: int) -> Iterator[None]:
        """Accept a request with so many sentences while this context is open; raises Refused where it is too much."""
        if self.pending + sentences > self._limit:
            if sentences > self._limit:
                raise Refused(413, f"the request has {sentences} sentences; the server takes {self._limit} at a time")
            raise Refused(429, "the server is busy; try again later", self.pending * self._seconds)
        if not self.pending:
            self._last = time.monotonic()
        self.pending += sentences
        try:
            yield
        finally:
            self.pending -= sentences

    def finished(self) -> None:
        """Count a finished sentence, for Retry-After."""
        now = time.monotonic()
        self._seconds += (1 - FORGET) * (now - self._last - self._seconds)
        self._last = now
