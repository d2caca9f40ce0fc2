"""Admission: how much work is accepted at a time, by all processes of a server together."""

from __future__ import annotations

from sharpbeam.server.folder import Share
from sharpbeam.server.refusals import Refused

AGAIN = 1.0  # seconds after which a client may try again


class Admission:
    """Counts the accepted sentences that are not answered yet."""

    def __init__(self, limit: int, share: Share | None = None) -> None:
        """`limit` holds for all processes together."""
        self._limit, self._all = limit, share.pending if share else [0]
        self._number, self.processes = share.number if share else 0, len(self._all)
        self._all[self._number] = 0

    @property
    def pending(self) -> int:
        """The sentences that this process has accepted."""
        return self._all[self._number]

    def accept(self, sentences: int, before: int, begun: bool) -> None:
        """Count more sentences of a request with `before` of them, unless it has `begun` to be served.

        Raises Refused where they are too many.
        """
        if not begun and sum(self._all) + sentences > self._limit:
            if before + sentences > self._limit:
                raise Refused(413, f"the request has more than {self._limit} sentences; split it")
            raise Refused(429, "the server is busy; try again later", AGAIN)
        self._all[self._number] += sentences

    def leave(self, sentences: int) -> None:
        """Count sentences that are not pending any more."""
        self._all[self._number] -= sentences


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
        self._admission.leave(self._pending)

    def add(self, sentences: int) -> None:
        """Count more sentences; raises Refused as `Admission.accept`."""
        self._admission.accept(sentences, self._pending, self._begun)
        self._pending += sentences

    def finished(self) -> None:
        """Count a finished sentence."""
        self._admission.leave(1)
        self._pending -= 1
        self._begun = True
