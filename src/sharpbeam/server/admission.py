"""Admission: how much work is accepted at a time, by all processes of a server together."""

from __future__ import annotations

import time

from sharpbeam.server.folder import Share
from sharpbeam.server.refusals import Refused

FORGET = 0.9  # of the measured rate with every finished sentence


class Admission:
    """Counts the accepted sentences that are not answered yet."""

    def __init__(self, limit: int, share: Share | None = None) -> None:
        """`limit` holds for all processes together."""
        self._limit, self._all = limit, share.pending if share else [0]
        self._number, self.processes = share.number if share else 0, len(self._all)
        self._all[self._number] = 0
        self._seconds = 0.05  # between two finished sentences, while there is work: an average
        self._last = 0.0  # when a sentence was finished, or work began

    @property
    def pending(self) -> int:
        """The sentences that this process has accepted."""
        return self._all[self._number]

    def accept(self, sentences: int, before: int, begun: bool) -> None:
        """Count more sentences of a request with `before` of them, unless it has `begun` to be served.

        Raises Refused where they are too many.
        """
        if not begun and (pending := sum(self._all)) + sentences > self._limit:
            if before + sentences > self._limit:
                raise Refused(413, f"the request has more than {self._limit} sentences; split it")
            raise Refused(429, "the server is busy; try again later", pending * self._seconds / self.processes)
        if not self.pending:
            self._last = time.monotonic()
        self._all[self._number] += sentences

    def leave(self, sentences: int, finished: int) -> None:
        """Count sentences that are not pending any more, `finished` of them with an answer."""
        self._all[self._number] -= sentences
        if finished:
            now = time.monotonic()
            self._seconds += (1 - FORGET) * ((now - self._last) / finished - self._seconds)
            self._last = now


class Ticket:
    """The sentences of one request, counted until it ends: `with Ticket(admission, texts) as ticket`.

    A text counts as one sentence until it is read: reading is work, too.
    """

    def __init__(self, admission: Admission, texts: int) -> None:
        self._admission, self._texts, self._pending, self._begun = admission, texts, 0, False

    def __enter__(self) -> Ticket:
        """Raises Refused as `Admission.accept`."""
        self.add(self._texts)
        return self

    def __exit__(self, *error: object) -> None:
        self._admission.leave(self._pending, 0)

    def add(self, sentences: int) -> None:
        """Count more sentences; raises Refused as `Admission.accept`."""
        self._admission.accept(sentences, self._pending, self._begun)
        self._pending += sentences

    def finished(self) -> None:
        """Count a finished sentence."""
        self._admission.leave(1, 1)
        self._pending -= 1
        self._begun = True
