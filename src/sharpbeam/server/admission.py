"""Admission: how much work is accepted at a time, and how often a client may come."""

from __future__ import annotations

import time
from collections import OrderedDict

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

    def accept(self, sentences: int, before: int, begun: bool) -> None:
        """Count sentences of a request that has so many `before`, unless it has `begun` to be served.

        Raises Refused where they are too many.
        """
        if self.pending + sentences > self._limit and not begun:
            if before + sentences > self._limit:
                raise Refused(413, f"the request has more than {self._limit} sentences; split it")
            raise Refused(429, "the server is busy; try again later", self.pending * self._seconds)
        if not self.pending:
            self._last = time.monotonic()
        self.pending += sentences

    def leave(self, sentences: int, finished: int) -> None:
        """Count sentences that are not pending any more, of which so many are finished."""
        self.pending -= sentences
        if finished:
            now = time.monotonic()
            self._seconds += (1 - FORGET) * ((now - self._last) / finished - self._seconds)
            self._last = now


class Ticket:
    """The sentences of one request, counted until it ends: `with Ticket(admission) as ticket`."""

    def __init__(self, admission: Admission) -> None:
        self._admission, self._pending, self._begun = admission, 0, False

    def __enter__(self) -> Ticket:
        return self

    def __exit__(self, *error: object) -> None:
        self._admission.leave(self._pending, 0)

    def add(self, sentences: int) -> None:
        """Count sentences; raises Refused as `Admission.accept`."""
        self._admission.accept(sentences, self._pending, self._begun)
        self._pending += sentences

    def finished(self) -> None:
        """Count a finished sentence."""
        self._admission.leave(1, 1)
        self._pending -= 1
        self._begun = True
