"""A session: requests are submitted, stepped and cancelled while others are decoded.

Everything that decodes is one: a batch is a session whose requests are all known, a server one that never ends.
Requests with different options are decoded in different lanes (decoding/lanes.py), which take their steps in turn. An
answer does not depend on when its request came, on its neighbours, on cancellations or on the number of threads.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import replace
from threading import Condition, Lock, Thread, current_thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic

from sharpbeam.decoding.choices import Choices
from sharpbeam.decoding.handle import MISSING, Handle, T
from sharpbeam.decoding.inputs import NUMBERS, Prefixes, encode_texts
from sharpbeam.decoding.lanes import Lane, Worker
from sharpbeam.decoding.loading import LoadedModel, ModelName, load_model
from sharpbeam.decoding.loop import Finished
from sharpbeam.decoding.workers import run_workers
from sharpbeam.errors import InputError
from sharpbeam.options.decode import DecodeOptions, ScheduleOptions
from sharpbeam.options.schema import fields_of, require
from sharpbeam.output_layers.by_language import ByLanguage
from sharpbeam.search.work import Work
from sharpbeam.types import Hypothesis, Prefix, Request

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from sharpbeam.options.keywords import DecodeKeywords

ONLINE = ScheduleOptions(schedule="stream", refill_at=0.9)  # requests enter as soon as they fit
_OF_SESSION = fields_of(ScheduleOptions).keys() - {"max_input_length"}
MOST_LANES = 16  # more are forgotten when nothing is in flight in them


class Session(Generic[T]):
    """Decodes requests of one model that may come at any time. Its methods may be called from several threads.

    >>> with Translator("de-en").session(beam_size=4) as session:  # doctest: +SKIP
    ...     handle = session.submit("Guten Morgen.")
    ...     for done in session.run():
    ...         print(done.result().text)

    Somebody has to take the steps: `step` takes one, `run` all until no request is left, and after `start` threads of
    the session do. Closing a session, as the end of a `with` block does, cancels what is not done.
    """

    def __init__(self, model: LoadedModel | ModelName, options: DecodeOptions | None = None) -> None:
        """A session of `model`; `options` are those of requests that come without their own.

        They also say the schedule of all requests; without options, requests enter as soon as they fit. Usually made by
        `Translator.session` or `Generator.session`. Raises ModelError if `model` is a name and cannot be loaded.
        """
        self.loaded = model if isinstance(model, LoadedModel) else load_model(model)
        """The model."""
        self.options = options or replace(self.loaded.options, schedule=ONLINE)
        """What a request is decoded with unless it has options of its own."""
        self._lanes: tuple[Lane, ...] = ()  # replaced, never changed: workers read it without the lock
        self._lane_of: dict[tuple[object, ...], Lane] = {}  # by the options of its requests
        self._choices = Choices(self.options)
        self._handles: dict[int, Handle[T]] = {}  # of all requests that wait or are in flight
        self._pending = 0  # handles that are not done
        self._numbers = itertools.count()
        self._sealed = self._closed = False
        self._workers: list[Worker] = []
        self._threads: list[Thread] = []
        self._kept = ExitStack()  # what the threads borrow
        self._lock = Lock()
        self._changed = Condition(self._lock)  # requests came, or none is left, or the session is sealed or closed
        self._opening = Lock()

    def __enter__(self) -> Session[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pending(self) -> int:
        """How many requests are not done: those that wait and those in flight."""
        return self._pending

    @property
    def waiting(self) -> int:
        """How many requests wait to enter. A server that lets this grow needs more machines, or should refuse some."""
        return sum(len(lane.plan.queue) for lane in self._lanes)

    @property
    def live(self) -> int:
        """How many requests are in flight. One with `return_alternatives` counts for each alternative."""
        return sum(len(run.requests) for worker in self._workers for run in tuple(worker.runs.values()))

    @property
    def work(self) -> Work:
        """What the searches in flight took so far; that of closed ones is counted in `loaded.work`."""
        total = Work()
        for worker in self._workers:
            for run in tuple(worker.runs.values()):
                total.add(run.search.work)
        return total

    def submit(
        self,
        text: str,
        *,
        target_prefix: str | None = None,
        priority: int = 0,
        options: DecodeOptions | None = None,
        **keywords: Unpack[DecodeKeywords],
    ) -> Handle[T]:
        """Let `text` be decoded; returns at once.

        Requests with a higher `priority` enter first, others in the order in which they came. Options are
        those of the session, or `options` (but for their schedule); keywords (beam_size=1, target_language="fr") change
        those. Raises InputError or OptionError for what cannot be decoded.
        """
        (handle,) = self.submit_all([text], target_prefix=target_prefix, priority=priority, options=options, **keywords)
        return handle

    def submit_all(
        self,
        texts: Sequence[str],
        *,
        target_prefix: Prefixes = None,
        priority: int = 0,
        options: DecodeOptions | None = None,
        **keywords: Unpack[DecodeKeywords],
    ) -> list[Handle[T]]:
        """Let `texts` be decoded; as `submit` for each, but longer ones enter first."""
        chosen = self._choose(options, keywords)
        lane = self._lane(chosen)
        inputs = encode_texts(self.loaded, texts, target_prefix, chosen, self._numbers)
        if inputs and isinstance(lane.layer, ByLanguage):
            lane.layer.scope(inputs[0].direction.languages)  # raises
        handles: list[Handle[T]] = [Handle(self, given, chosen, priority) for given in inputs]
        asked = [(handle, handle._given.request) for handle in handles if handle._given.request is not None]
        with self._lock:
            if self._closed or self._sealed:
                raise InputError(f"the session is {'closed' if self._closed else 'sealed'}; it takes no more requests.")
            self._add(lane, [(handle, request, 0) for handle, request in asked], priority)
            self._pending += len(asked)
        for handle in handles:
            if handle._given.request is None:
                handle._end()
        return handles

    def seal(self) -> None:
        """Promise that no more requests come: then one native call may take several steps."""
        with self._lock:
            self._sealed = True
            for lane in self._lanes:  # others come to where alternatives are completed
                lane.plan.queue.final = not any(other.completion is lane for other in self._lanes)
            self._changed.notify_all()

    def step(self) -> list[Handle[T]]:
        """Decode one token for every live row in the caller's thread; returns the handles that are done now.

        Does nothing if no request waits or is in flight. A sealed session may take several steps at once.
        """
        self._worker(0, 1)
        with self.loaded.teams.lend(1) as (team,):  # an iterator of `run` that was closed may have left other workers
            return [handle for worker in tuple(self._workers) for handle in self._step(worker, team)]

    def run(self) -> Generator[Handle[T], None, None]:
        """Take steps until every request is done; yields the handles as they are done.

        Several workers share the work if there is enough of it. Closing the iterator stops them.
        """
        workers = min(self.loaded.machine.workers, sum(lane.plan.workers for lane in self._lanes))
        workers = max(workers, *(number + 1 for number, worker in enumerate(self._workers) if worker.busy), 0)
        stopped = False

        def stop() -> None:
            nonlocal stopped
            with self._lock:
                stopped = True
                self._changed.notify_all()

        numbers = iter(range(workers))
        with self.loaded.teams.lend(workers) as teams:
            work: Callable[[], Iterator[Handle[T]]] = lambda: self._steps(  # noqa: E731
                next(numbers), workers, teams.pop(), lambda: stopped or not self._pending
            )
            with closing(run_workers(work, stop, workers)) as done:
                yield from done

    def start(self, workers: int = 0) -> None:
        """Let threads of the session take the steps until it is closed: as many as `workers`, 0 = the model's threads.

        With fewer workers than threads each worker has the help of several.
        """
        require(0 <= workers <= 1024, "workers", workers, "between 0 (as many as threads) and 1024")
        if self._threads:
            raise InputError("the session is started already; close it, and open another one.")
        count = workers or self.loaded.machine.workers
        teams = self._kept.enter_context(self.loaded.teams.lend(count))
        for number, team in enumerate(teams):
            thread = Thread(target=self._serve, args=(number, count, team), name=f"sharpbeam-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """Stop the threads and cancel every request that is not done. A closed session takes no requests."""
        with self._lock:
            self._closed = True
            for lane in self._lanes:
                lane.plan.queue.close()
            self._changed.notify_all()
        if current_thread() not in self._threads:  # in a callback nobody can wait for himself
            for thread in self._threads:
                thread.join()
        self._kept.close()
        for handle in self._unfinished():
            handle.cancel()
        for worker in self._workers:
            worker.close()

    def _serve(self, number: int, workers: int, team: AbstractContextManager[None]) -> None:
        """The work of a thread of the session."""
        try:
            for _ in self._steps(number, workers, team, lambda: False):
                pass
        except BaseException as error:
            for handle in self._unfinished():  # nobody may wait for ever
                self._drop(handle)
                handle._end(error)
            raise

    def _steps(
        self, number: int, workers: int, team: AbstractContextManager[None], ended: Callable[[], bool]
    ) -> Iterator[Handle[T]]:
        """The work of one of so many workers: handles as they are done."""
        worker = self._worker(number, workers)
        while not self._closed:
            done = self._step(worker, team)
            yield from done
            if ended():
                return
            if not done and not worker.busy:
                with self._changed:
                    if not (self._closed or ended() or self.waiting):
                        self._changed.wait()

    def _step(self, worker: Worker, team: AbstractContextManager[None]) -> list[Handle[T]]:
        """One step of each lane; returns the handles that are done now."""
        done: list[Handle[T]] = []
        for lane, outcome in worker.step(self._lanes, team):
            done += self._fail(*outcome) if isinstance(outcome, tuple) else self._settle(lane, outcome)
        return done

    def _unfinished(self) -> set[Handle[T]]:
        with self._lock:
            return set(self._handles.values())

    def _worker(self, number: int, workers: int) -> Worker:
        with self._lock:
            while len(self._workers) <= number:
                self._workers.append(Worker())
            worker = self._workers[number]
            worker.workers = workers
            return worker

    def _choose(self, options: DecodeOptions | None, keywords: DecodeKeywords) -> DecodeOptions:
        """The options of a request."""
        for name in keywords.keys() & _OF_SESSION:
            require(False, name, keywords.get(name), "left to the session: it is no option of a request")
        if options is None:
            return self._choices.changed(keywords)
        options = options.changed(**keywords)
        longest = options.schedule.max_input_length
        return replace(options, schedule=replace(self.options.schedule, max_input_length=longest))

    def _lane(self, options: DecodeOptions) -> Lane:
        """The lane of requests with `options`, whatever their languages and lengths."""
        key = (options.search, options.sampling, options.output)
        with self._opening:  # reading an output layer may take a while, in which others take their steps
            lane = self._lane_of.get(key)
            if lane is None:
                self._lane_of = {known: old for known, old in self._lane_of.items() if old in self._lanes}
                lane = self._lane_of[key] = Lane(self.loaded, options)
        if lane.expands and lane.completion is None:
            lane.completion = self._lane(lane.completed)
        return lane

    def _add(self, lane: Lane, asked: list[tuple[Handle[T], Request, int]], priority: int) -> None:
        """Let requests wait, each of which is a part of the answer of a handle. The lock is held."""
        for handle, request, part in asked:
            self._handles[request.index] = handle
            handle._parts[request.index] = (lane, part)
        if lane not in self._lanes:
            many = len(self._lanes) >= MOST_LANES
            self._lanes = (*(old for old in self._lanes if not many or old.plan.queue.unfinished), lane)
        lane.plan.add([request for _, request, _ in asked], priority)
        self._changed.notify_all()

    def _settle(self, lane: Lane, finished: Finished) -> list[Handle[T]]:
        """Note the hypotheses of requests that are done; returns the handles that are done now."""
        done: list[Handle[T]] = []
        with self._lock:
            for request, hypotheses in finished:
                handle = self._handles.pop(request.index, None)
                if handle is None:  # it was cancelled
                    continue
                _, part = handle._parts.pop(request.index)
                if lane.expands:
                    self._complete(lane, handle, request, hypotheses)
                    continue
                handle._found[part : part + 1] = hypotheses  # all of them, or the only one of an alternative
                if not handle._parts:
                    done.append(handle)
                    self._leave()
        for handle in done:
            handle._end()
        return done

    def _complete(self, lane: Lane, handle: Handle[T], request: Request, beginnings: list[Hypothesis]) -> None:
        """Let each of `beginnings`, as a longer prefix, be completed by itself. The lock is held."""
        # Where no token is allowed, the search says what to do with the request as it is.
        prefixes: list[Prefix | None] = [Prefix.of(hypothesis) for hypothesis in beginnings] or [request.prefix]
        handle._found = [MISSING] * len(prefixes)
        parts = [replace(request, index=next(self._numbers) % NUMBERS, prefix=prefix) for prefix in prefixes]
        assert lane.completion is not None
        self._add(lane.completion, [(handle, part, n) for n, part in enumerate(parts)], handle.priority)
        lane.completion.plan.queue.final = self._sealed and not lane.plan.queue.unfinished

    def _fail(self, requests: list[int], error: BaseException) -> list[Handle[T]]:
        """End the handles of `requests` by an error."""
        failed = list({self._handles[index]: None for index in requests if index in self._handles})
        for handle in failed:
            self._drop(handle)
            handle._end(error)
        return failed

    def _drop(self, handle: Handle[T]) -> None:
        """Forget what of a handle waits or is in flight."""
        with self._lock:
            parts, handle._parts = handle._parts, {}
            for index in parts:
                del self._handles[index]
            if parts:
                self._leave()
        for index, (lane, _) in parts.items():
            if not lane.plan.queue.cancel(index):
                for worker in self._workers:
                    worker.cancel(lane, index)

    def _peek(self, lane: Lane, request: int) -> tuple[list[Hypothesis], list[int]] | None:
        """What there is of a request; None if it is not in flight."""
        found = (worker.peek(lane, request) for worker in tuple(self._workers))
        return next((each for each in found if each is not None), None)

    def _leave(self) -> None:
        """One handle less. The lock is held."""
        self._pending -= 1
        if not self._pending:
            self._changed.notify_all()


def decode_texts(
    loaded: LoadedModel, texts: Sequence[str], options: DecodeOptions, target_prefix: Prefixes = None
) -> Generator[tuple[int, Any], None, None]:
    """Decode `texts`, all of which are known; yields (index in `texts`, answer) as they are done.

    Options and texts are checked at once. Closing the iterator stops the work and its threads.
    """
    session: Session[Any] = Session(loaded, options)
    handles = session.submit_all(texts, target_prefix=target_prefix)
    session.seal()

    def results() -> Generator[tuple[int, Any], None, None]:
        index = {handle: place for place, handle in enumerate(handles)}
        with session:
            for handle in handles:
                if handle.done():  # there was nothing to decode
                    yield index[handle], handle.result()
            for handle in session.run():
                yield index[handle], handle.result()

    return results()
