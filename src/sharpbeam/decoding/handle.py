"""Handle of a request in a session: its answer, when there is one."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future, InvalidStateError
from threading import get_ident
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from sharpbeam.decoding.inputs import Input, answer_of
from sharpbeam.decoding.lanes import Lane
from sharpbeam.decoding.results import Generation, Partial, Result, Translation, hypothesis_answer
from sharpbeam.decoding.workers import check_process
from sharpbeam.errors import InputError, RequestCancelledError
from sharpbeam.options.decode import SearchOptions
from sharpbeam.types import Hypothesis

if TYPE_CHECKING:
    from sharpbeam.decoding.session import Session

T = TypeVar("T", bound=Translation | Generation)
MISSING = Hypothesis(0, (), (), 0.0, 0.0)  # placeholder of an alternative that is not done


class Handle(Future[T]):
    """A request in a session: a `concurrent.futures.Future` of its answer; `asyncio.wrap_future` works too."""

    def __init__(self, session: Session[T], text: Input, options: SearchOptions, priority: int) -> None:
        """Created by `Session.submit`."""
        super().__init__()
        self.text = text.text
        """The text as it was given."""
        self.truncated = text.truncated
        """Whether part of the text was cut off (max_input_length)."""
        self.priority = priority
        """Requests with higher priority enter first."""
        self._session, self._input, self._options = session, text, options
        self._parts: dict[int, tuple[Lane, int]] = {}  # by request: lane, and index of the alternative
        self._hypotheses: list[Hypothesis] = []
        self._complete = text.request is None  # whether all hypotheses are there
        self._answer: Result | None = None
        self._notified = False  # waiters know of the cancellation
        if self._complete:  # an empty text
            self._end()

    def result(self, timeout: float | None = None) -> T:
        """Wait for the answer, at most `timeout` seconds (None: no limit), and return it.

        Takes the steps of the session in this thread, unless its own threads (`Session.start`) or another thread's
        `Session.run` take them; what else finishes in these steps is done too. Raises TimeoutError
        (on Python 3.10 that of concurrent.futures), RequestCancelledError, the error that ended the request, or
        InputError in a callback that another thread's steps called: they would never come to an end.
        """
        if self._answer is None:
            timeout = self._step_until_done(timeout)
            try:
                if not self._complete:
                    super().result(timeout)
            except CancelledError:
                message = f"the request {self.text[:40]!r} was cancelled; it has no answer."
                raise RequestCancelledError(message) from None
            self._answer = answer_of(self._session.loaded, self._input, self._hypotheses, self._options)
        return self._answer  # type: ignore[return-value]  # T is the kind of answer that the session's model gives

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end of the request as `result` does, and return the error that ended it, if any.

        Raises concurrent.futures.CancelledError where the request was cancelled.
        """
        timeout = self._step_until_done(timeout)
        return None if self._complete else super().exception(timeout)

    def cancel(self) -> bool:
        """Cancel the request; its rows are freed at the next step. Returns False if it is done already."""
        session = self._session
        session._drop(self)
        if self._complete or not super().cancel():
            return False
        with session._lock:
            notified, self._notified = self._notified, True
        if not notified:
            self.set_running_or_notify_cancel()  # for concurrent.futures.wait
        return True

    def partial(self) -> Partial:
        """Return the finished hypotheses so far, and the text of the best live one.

        Both are empty while the request or its attention waits; when it is done, they are those of the answer. Raises
        the errors of `result`. In a sealed session one step may be the rest of the search.
        """
        if not self.done():
            with self._session._lock:
                parts, hypotheses = list(self._parts.items()), [h for h in self._hypotheses if h is not MISSING]
            workers = tuple(self._session._workers)
            places = [worker.peek(lane, index) for index, (lane, _) in parts for worker in workers]
            live = [place for place in places if place is not None]
            vocabulary = self._session.loaded.target
            text = vocabulary.decode(live[0][1]) if live else ""
            if not self.done():
                hypotheses += [hypothesis for finished, _ in live for hypothesis in finished]
                return Partial(tuple(hypothesis_answer(vocabulary, hypothesis) for hypothesis in hypotheses), text)
        answer = self.result()
        return Partial(answer.hypotheses, answer.text)

    def _step_until_done(self, timeout: float | None) -> float | None:
        """Step the session unless another thread does; returns the rest of `timeout` in seconds.

        What else finishes meanwhile is left to an iterator of `Session.run` in this thread, if there is one.
        """
        session, end = self._session, None if timeout is None else monotonic() + timeout
        while self._parts and (end is None or monotonic() < end):
            if session._threads or session._runner not in (None, get_ident()):
                if session._process:
                    check_process(session._process)
                if get_ident() in session._stepping:
                    raise InputError(
                        f"the answer of {self.text[:40]!r} is waited for in a callback, in the thread that would "
                        "decode it; add a callback to that request, or wait in another thread."
                    )
                break
            handles = session.step("to the end" if end is None and session.pending == 1 else "one step")
            session._late += handles if session._runner is not None else []
        return None if end is None else max(0.0, end - monotonic())

    def _end(self, error: BaseException | None = None) -> None:
        """End the request with its answer or with `error`."""
        try:
            if error is not None:
                self.set_exception(error)
            else:
                self.set_result(None)  # type: ignore[arg-type]  # `result` builds the answer from the hypotheses
        except InvalidStateError:
            pass  # cancelled at the same moment
