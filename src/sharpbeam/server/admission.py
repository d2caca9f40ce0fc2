"""Admission: how many sentences are accepted at a time."""

from __future__ import annotations

from asyncio import Semaphore

from sharpbeam.server.refusals import Refused

AGAIN = 1.0  # seconds after which a client may try again
AT_ONCE = 32  # sentences of one request in flight, so that a long one leaves capacity to others


class Admission:
    """The number of accepted sentences that are not answered yet."""

    def __init__(self, limit: int) -> None:
        self.limit, self.pending = limit, 0


class Ticket:
    """The sentences of one request, counted until it ends: `with Ticket(admission, texts) as ticket`.

    A text counts as one sentence until it is read; a file as none: those that wait must not keep each other out.
    """

    def __init__(self, admission: Admission, texts: int) -> None:
        self._admission, self.texts, self._pending, self._begun = admission, texts, 0, False
        self.places = Semaphore(AT_ONCE)  # of its sentences in flight

    def __enter__(self) -> Ticket:
        """Raises Refused as `add`."""
        self.add(self.texts)
        return self

    def __exit__(self, *error: object) -> None:
        self._count(-self._pending)

    def add(self, sentences: int) -> None:
        """Count more sentences; raises Refused where they are too many, unless one has been answered."""
        limit = self._admission.limit
        if not self._begun and self._admission.pending + max(sentences, not self.texts) > limit:
            if self._pending + sentences > limit:
                raise Refused(413, f"the request has more than {limit} sentences; split it")
            raise Refused(429, "the server is busy; try again later", AGAIN)
        self._count(sentences)

    def finished(self) -> None:
        """Count a finished sentence."""
        self._count(-1)
        self._begun = True

    def _count(self, sentences: int) -> None:
        self._pending += sentences
        self._admission.pending += sentences
