"""Admission: how much work is accepted at a time, by all processes of a server together."""

from __future__ import annotations

import time

from sharpbeam.server.refusals import Refused
from sharpbeam.server.share import Numbers

FORGET = 0.9  # of the measured rate with every finished sentence


class Admission:
    """Counts the accepted sentences that are not answered yet."""

    def __init__(self, limit: int, numbers: Numbers, processes: int = 1) -> None:
        """`limit` holds for all processes together; `numbers` has `pending`."""
        self._limit, self._numbers, self.processes = limit, numbers, processes
        self._own = 0
        self._seconds = 0.05  # between two finished sentences, while there is work: an average
        self._last = 0.0  # when a sentence was finished, or work began

    def accept(self, sentences: int, before: int, begun: bool) -> None:
        """Count sentences of a request that has so many `before`, unless it has `begun` to be served.

        Raises Refused where they are too many.
        """
        if not begun and (pending := self._numbers.total("pending")) + sentences > self._limit:
            if before + sentences > self._limit:
                raise Refused(413, f"the request has more than {self._limit} sentences; split it")
            raise Refused(429, "the server is busy; try again later", pending * self._seconds / self.processes)
        if not self._own:
            self._last = time.monotonic()
        self._count(sentences)

    def leave(self, sentences: int, finished: int) -> None:
        """Count sentences that are not pending any more, of which so many are finished."""
        self._count(-sentences)
        if finished:
            now = time.monotonic()
            self._seconds += (1 - FORGET) * ((now - self._last) / finished - self._seconds)
            self._last = now

    def _count(self, sentences: int) -> None:
        self._own += sentences
        self._numbers.set("pending", self._own)


class Ticket:
    """The sentences of one request, counted until it ends: `with Ticket(admission, documents) as ticket`.

    Each of its `documents`, which take memory and work before their sentences are known, counts as one.
    """

    def __init__(self, admission: Admission, documents: int = 0) -> None:
        self._admission, self._documents, self._pending, self._begun = admission, documents, 0, False

    def __enter__(self) -> Ticket:
        """Raises Refused as `Admission.accept`."""
        if self._documents:
            self._admission.accept(self._documents, 0, False)
        return self

    def __exit__(self, *error: object) -> None:
        self._admission.leave(self._documents + self._pending, 0)

    def add(self, sentences: int) -> None:
        """Count sentences; raises Refused as `Admission.accept`."""
        self._admission.accept(sentences, self._pending, self._begun)
        self._pending += sentences

    def finished(self) -> None:
        """Count a finished sentence."""
        self._admission.leave(1, 1)
        self._pending -= 1
        self._begun = True
