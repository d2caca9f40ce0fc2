"""Handle of a request in a session: its answer, when there is one."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from time import monotonic
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
MISSING = Hypothesis(0, (), (), 0.0, 0.0)  # placeholder of an alternative that is not done


class Handle(Future[T]):
    """A request in a session: a `concurrent.futures.Future` of its answer; `asyncio.wrap_future` works too."""

    def __init__(self, session: Session[T], given: Input, options: DecodeOptions, priority: int) -> None:
        """Created by `Session.submit`."""
        super().__init__()
        self.text = given.text
        """The text as it was given."""
        self.truncated = given.truncated
        """Whether part of the text was cut off (max_input_length)."""
        self.priority = priority
        """Requests with higher priority enter first."""
        self._session, self._given, self._options = session, given, options
        self._parts: dict[int, tuple[Lane, int]] = {}  # by request: lane, and index of the alternative
        self._found: list[Hypothesis] = []
        self._answer: T | None = None
        self._told = False  # waiters were notified of the cancellation

    def result(self, timeout: float | None = None) -> T:
        """Wait for the answer, at most `timeout` seconds (None: no limit), and return it.

        Takes the steps of the session in this thread, unless its own threads (`Session.start`) or another thread's
        `Session.run` take them; what else finishes in these steps is done too. Raises TimeoutError,
        RequestCancelledError, the error that ended the request, or InputError in a callback that another thread's steps
        called: they would never come to an end.
        """
        timeout = self._step_until_done(timeout)
        try:
            super().result(timeout)
        except CancelledError:
            raise RequestCancelledError(f"the request {self.text[:40]!r} was cancelled; it has no answer.") from None
        if self._answer is None:
            self._answer = cast(T, answer_of(self._session.loaded, self._given, self._found, self._options.search))
        return self._answer

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end of the request as `result` does, and return the error that ended it, if any."""
        return super().exception(self._step_until_done(timeout))

    def cancel(self) -> bool:
        """Cancel the request; its rows are freed at the next step. Returns False if it is done already."""
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
        """Return the finished hypotheses so far, and the text of the best live one.

        Both are empty while the request waits; when it is done, they are those of the answer. Raises the same errors as
        `result` for a request that ended without an answer. In a sealed session one step may be the rest of the search.
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

    def _step_until_done(self, timeout: float | None) -> float | None:
        """Step the session if no other thread does; returns the rest of `timeout` in seconds."""
        end = None if timeout is None else monotonic() + timeout
        self._session._step_for(self, end)
        return None if end is None else max(0.0, end - monotonic())

    def _end(self, error: BaseException | None = None) -> None:
        """End the request with its answer or with `error`."""
        with suppress(InvalidStateError):  # cancelled at the same moment
            if error is not None:
                self.set_exception(error)
            else:
                self.set_result(cast(T, None))  # `result` builds the answer from the hypotheses
