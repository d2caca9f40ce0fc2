"""Handles: what a session returns for a request that it will decode."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar, cast

from sharpbeam.decoding.inputs import Input, answer_of
from sharpbeam.decoding.lanes import Lane
from sharpbeam.decoding.results import Generation, Partial, Translation, hypothesis_answer
from sharpbeam.errors import RequestCancelledError
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.types import Hypothesis

if TYPE_CHECKING:
    from sharpbeam.decoding.session import Session

T = TypeVar("T", bound=Translation | Generation)
MISSING = Hypothesis(0, (), (), 0.0, 0.0)  # stands where an alternative is still to be completed


class Handle(Future[T]):
    """A request of a session: a `concurrent.futures.Future` of its answer, which `asyncio.wrap_future` takes too."""

    def __init__(self, session: Session[T], given: Input, options: DecodeOptions, priority: int) -> None:
        """Made by `Session.submit`."""
        super().__init__()
        self.text = given.text
        """The text as it was given."""
        self.truncated = given.truncated
        """Whether a part of the text was cut off (max_input_length)."""
        self.priority = priority
        """Requests with a higher one enter first."""
        self._session, self._given, self._options = session, given, options
        self._parts: dict[int, tuple[Lane, int]] = {}  # what is in flight, by request: lane, and which alternative
        self._found: list[Hypothesis] = []
        self._answer: T | None = None
        self._told = False  # who waits was told that it was cancelled

    def result(self, timeout: float | None = None) -> T:
        """The answer; waits for it, at most `timeout` seconds (None: as long as it takes).

        Raises TimeoutError, RequestCancelledError, or the error that ended the request. Somebody has to take the steps
        meanwhile: a started session, or another thread.
        """
        try:
            super().result(timeout)
        except CancelledError:
            raise RequestCancelledError(f"the request {self.text[:40]!r} was cancelled; it has no answer.") from None
        if self._answer is None:
            self._answer = cast(T, answer_of(self._session.loaded, self._given, self._found, self._options.search))
        return self._answer

    def cancel(self) -> bool:
        """Give the request up; its rows are freed at the next step. False if it is done already."""
        session = self._session
        session._drop(self)
        if not super().cancel():
            return False
        with session._lock:
            told, self._told = self._told, True
        if not told:
            self.set_running_or_notify_cancel()  # for concurrent.futures.wait
        return True

    def partial(self) -> Partial:
        """What there is of the answer now: nothing while the request waits, the whole of it when it is done.

        In a sealed session a step may be as long as the rest of the search. Raises as `result` for a request that
        ended without an answer.
        """
        if not self.done():
            with self._session._lock:
                parts, found = list(self._parts.items()), [h for h in self._found if h is not MISSING]
            looked = [each for index, (lane, _) in parts if (each := self._session._peek(lane, index)) is not None]
            vocabulary = self._session.loaded.target
            text = vocabulary.decode(looked[0][1]) if looked else ""
            if not self.done():
                found += [hypothesis for finished, _ in looked for hypothesis in finished]
                return Partial(tuple(hypothesis_answer(vocabulary, hypothesis) for hypothesis in found), text)
        answer = self.result()
        return Partial(answer.hypotheses, answer.text)

    def _end(self, error: BaseException | None = None) -> None:
        """Finish the request by its answer, or by an error."""
        with suppress(InvalidStateError):  # it was cancelled in the last moment
            if error is not None:
                self.set_exception(error)
            else:
                self.set_result(cast(T, None))  # `result` makes it of the hypotheses
