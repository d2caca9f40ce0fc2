"""A session: requests are submitted, stepped and cancelled while others are decoded.

A server is a session that never ends; a batch is one whose requests are all known, and `Translator.translate` a loop
over its steps. Requests with different options are decoded in different lanes (decoding/lanes.py), each of which takes
a step in every round. An answer does not depend on when its request came, on other requests, on cancellations or on the
number of threads.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from threading import Condition, Lock, RLock, Thread, current_thread, get_ident
from typing import Any, Generic

from sharpbeam._core import Team
from sharpbeam.decoding.handle import MISSING, Handle, T
from sharpbeam.decoding.inputs import NUMBERS, Forced, Prefixes, encode_texts
from sharpbeam.decoding.lanes import Lane, Worker, lane_options, request_options
from sharpbeam.decoding.loading import LoadedModel, ModelName, load_model
from sharpbeam.decoding.loop import Alone, Finished
from sharpbeam.decoding.workers import check_process, lost, run_workers
from sharpbeam.errors import InputError
from sharpbeam.options.decode import DecodeOptions, ScheduleOptions, given_options
from sharpbeam.options.keywords import DecodeKeywords, Unpack
from sharpbeam.options.schema import require
from sharpbeam.types import Hypothesis, Prefix, Request

ONLINE = ScheduleOptions(schedule="stream", refill_at=0.9)  # requests enter as soon as there is capacity
MOST_LANES = 16  # more are closed once nothing is in flight in them


class Session(Generic[T]):
    """Decodes requests for one model that may come at any time. Any thread may call its methods.

    >>> with Translator("de-en").session(beam_size=4) as session:  # doctest: +SKIP
    ...     handle = session.submit("Guten Morgen.")
    ...     for done in session.run():
    ...         print(done.result().text)

    Decoding happens in `step` (one step), in `run` (all steps until no request is left), in `Handle.result` (until that
    request is done), or after `start` in threads of the session. Closing a session, as at the end of a `with` block,
    cancels unfinished requests. An interrupt (Ctrl-C) during a step closes it.
    """

    def __init__(self, model: LoadedModel | ModelName, options: DecodeOptions | None = None) -> None:
        """Open a session; `options` are the defaults of its requests, and set the schedule of all of them.

        Without options a request enters as soon as there is capacity. `Translator.session` and `Generator.session` make
        sessions too. Raises ModelError if `model` is a name and cannot be loaded.
        """
        self.loaded = model if isinstance(model, LoadedModel) else load_model(model)
        """The model."""
        self.options = given_options(options, replace(self.loaded.options, schedule=ONLINE))
        """Defaults of requests, and the schedule."""
        self._lanes: tuple[Lane, ...] = ()  # immutable, since workers read it without the lock
        self._lane_of: dict[DecodeOptions, Lane] = {}  # by its options
        self._handles: dict[int, Handle[T]] = {}  # of all requests that wait or are in flight, by index
        self.pending = 0
        """Number of unfinished requests: those that wait and those in flight."""
        self._numbers = itertools.count()
        self._sealed = self._closed = False
        self._workers = [Worker()]
        self._threads: list[Thread] = []
        self._runner: int | None = None  # the thread that iterates `run`
        self._process = 0  # the one that its threads are in, while it has some
        self._stepping: set[int] = set()  # the threads of workers
        self._sleeping = 0  # number of threads that wait for a change
        self._late: list[Handle[T]] = []  # finished while the iterator of `run` was paused, which yields them next
        self._teams: Sequence[Team] = ()  # of the threads
        self._lock = RLock()
        self._changed = Condition(self._lock)  # new requests, none left, or closed
        self._opening = Lock()

    def __enter__(self) -> Session[T]:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    @property
    def waiting(self) -> int:
        """Number of requests that wait to enter. If it keeps growing, the machine is too slow for the load."""
        return sum(len(lane.queue) for lane in self._lanes)

    @property
    def live(self) -> int:
        """Number of requests in flight. With `return_alternatives` each alternative counts."""
        return sum(len(run.requests) for worker in self._workers for run in tuple(worker.runs.values()))

    def submit(
        self,
        text: str,
        *,
        target_prefix: str | Forced | None = None,
        priority: int = 0,
        options: DecodeOptions | None = None,
        **keywords: Unpack[DecodeKeywords],
    ) -> Handle[T]:
        """Submit a request to decode `text` as it stands (`raw`); returns immediately.

        Requests with higher `priority` enter first, others in the order of submission. The request uses the options of
        the session, or `options` (except their schedule), changed by keywords: beam_size=1, target_language="fr".
        Raises InputError or OptionError if it cannot be decoded.
        """
        prefix = None if target_prefix is None else [target_prefix]
        common: Any = {"target_prefix": prefix, "priority": priority, "options": options}
        (handle,) = self.submit_all([text], **common, **keywords)
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
        """Submit a request for each of `texts`, as `submit`; the longest enter first."""
        check_process(self._process)
        require(type(priority) is int, "priority", priority, "a whole number")
        settings = request_options(self.options, options, keywords) if options or keywords else self.options
        lane = self._lane(settings)
        inputs = encode_texts(self.loaded, texts, target_prefix, settings, self._numbers)
        if inputs:
            lane.layer.check_languages(inputs[0].direction.languages)
        handles, parts = list[Handle[T]](), list[tuple[Handle[T], Request, int]]()
        for each in inputs:
            handles.append(handle := Handle(self, each, settings.search, priority))
            if each.request is not None:
                parts.append((handle, each.request, 0))
        with self._lock:
            if self._closed or self._sealed:
                raise InputError(f"the session is {'closed' if self._closed else 'sealed'}; it takes no more requests.")
            self._add(lane, parts, priority)
            self.pending += len(parts)
        return handles

    def prepare(self) -> None:
        """Open what requests need, which may take seconds; otherwise the first request does."""
        self._lane(self.options)

    def seal(self) -> None:
        """Declare that no more requests will come: then one native call may take several steps."""
        with self._lock:
            self._sealed = True
            for lane in self._lanes:
                lane.queue.final = not lane.completes  # those still get requests

    def step(self, alone: Alone = "one step") -> list[Handle[T]]:
        """Decode one token for every live row in the calling thread; returns the handles that finished.

        Does nothing without a request. A sealed session may take several steps, as may a request that is `alone`.
        """
        check_process(self._process)
        handles: list[Handle[T]] = []
        teams = self.loaded.teams.lend(1)
        try:
            for worker in tuple(self._workers):  # a closed iterator of `run` may have left others
                handles += self._step(worker, teams[0], alone)
        finally:
            self.loaded.teams.take_back(teams)
        return handles

    def run(self) -> Generator[Handle[T], None, None]:
        """Take steps until every request is done; yields handles as they finish.

        Uses as many threads as there is work for. Closing the iterator stops them; what is in flight stays so.
        """
        check_process(self._process)
        workers = 1
        if self.loaded.workers > 1:  # at least as many as are at work
            waiting = min(self.loaded.workers, sum(lane.queue.workers for lane in self._lanes))
            workers = max(waiting, *(number for number, worker in enumerate(self._workers, 1) if worker.busy), 1)
        teams = self.loaded.teams.lend(workers)
        steps = self._steps(0, 1, teams[0], lambda: not self.pending) if workers == 1 else self._together(teams)
        self._runner = get_ident()
        try:
            for handle in steps:
                yield handle
                while self._late:
                    yield self._late.pop(0)
        finally:
            steps.close()
            self._runner = None
            self.loaded.teams.take_back(teams)

    def _together(self, teams: Sequence[Team]) -> Generator[Handle[T], None, None]:
        """Steps of a worker for each of `teams`, in threads; yields handles as they finish."""
        stopped, workers, self._process = False, enumerate(teams), os.getpid()

        def stop() -> None:
            nonlocal stopped
            with self._lock:
                stopped = True
                self._changed.notify_all()

        def work() -> Iterator[Handle[T]]:
            number, team = next(workers)
            return self._steps(number, len(teams), team, lambda: stopped or not self.pending)

        try:
            yield from run_workers(work, stop, len(teams))
        finally:
            if not (self._threads or lost(self._process)):
                self._process = 0

    def start(self, workers: int = 0) -> None:
        """Start `workers` threads that take the steps until the session is closed; 0 = the threads of the model.

        With fewer workers than threads, several threads share the matmuls of one worker.
        """
        sound = type(workers) is int and 0 <= workers <= 1024
        require(sound, "workers", workers, "between 0 (as many as threads) and 1024")
        if self._threads or self._closed:
            raise InputError("the session is started already, or closed; open another one.")
        count, self._process = workers or self.loaded.workers, os.getpid()
        self._teams = self.loaded.teams.lend(count)
        for number, team in enumerate(self._teams):
            thread = Thread(target=self._serve, args=(number, count, team), name=f"sharpbeam-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """Stop the threads and cancel all unfinished requests. A closed session takes no requests."""
        if lost(self._process):
            return
        self._refuse()
        if self._threads and current_thread() not in self._threads:  # a thread cannot join itself in a callback
            for thread in self._threads:
                if thread.ident is not None:  # it has started
                    thread.join()
        with self._lock:
            unfinished = set(self._handles.values())
        for handle in unfinished:
            handle.cancel()
        with self._lock:
            for worker in self._workers:
                worker.close()
            teams, self._teams = self._teams, ()
        self.loaded.teams.take_back(teams)

    def renew(self) -> bool:
        """Take requests again after `seal`; False if it should be closed instead: it gave up, or is not done."""
        self._sealed = False
        return not (self.pending or self._closed) and all(map(Worker.reusable, self._workers))

    def _serve(self, number: int, workers: int, team: Team) -> None:
        """Body of a thread of the session."""
        try:
            for _ in self._steps(number, workers, team, lambda: False):
                pass
        except BaseException as error:
            self._give_up(error)  # no caller may wait forever
            raise

    def _steps(
        self, number: int, workers: int, team: Team, ended: Callable[[], bool]
    ) -> Generator[Handle[T], None, None]:
        """Steps of one of `workers` workers until `ended`; yields handles as they finish."""
        with self._lock:
            self._workers += [Worker() for _ in range(len(self._workers), workers)]
        worker = self._workers[number]
        worker.workers = workers
        self._stepping.add(get_ident())
        try:
            while not self._closed:
                handles = self._step(worker, team, "until others come")
                yield from handles
                if ended():
                    return
                if not handles and not worker.busy:
                    with self._changed:
                        if not (self._closed or ended() or self.waiting):
                            self._sleeping += 1
                            self._changed.wait()
                            self._sleeping -= 1
        finally:
            self._stepping.discard(get_ident())

    def _step(self, worker: Worker, team: Team, alone: Alone) -> list[Handle[T]]:
        """Take one step in each lane; returns the handles that finished. An interrupt may come after half of it."""
        handles: list[Handle[T]] = []
        try:
            for lane, outcome in worker.step(self._lanes, team, alone):
                handles += self._fail(*outcome) if isinstance(outcome, tuple) else self._settle(lane, outcome)
        except BaseException as error:
            if not isinstance(error, Exception):
                self._give_up(InputError("the session was interrupted, and is closed; open another one."))
            raise
        return handles

    def _give_up(self, error: BaseException) -> None:
        """End all requests with an error, and take no more."""
        self._refuse()
        self._fail(tuple(self._handles), error)

    def _refuse(self) -> None:
        """Take no more requests, and wake all threads."""
        with self._lock:
            self._closed = True
            for lane in self._lanes:
                lane.queue.close()
            self._changed.notify_all()

    def _lane(self, options: DecodeOptions) -> Lane:
        """The lane for `options`; languages and max_input_length may differ within a lane."""
        if options is not self.options:
            layer, options = self.loaded.layer_name(options), lane_options(self.options, options)
            if layer != self.loaded.layer_name(options):  # auto depends on the languages
                options = replace(options, output=replace(options.output, output_layer=layer))
        with self._opening:  # reading an output layer may take seconds, during which other lanes run
            lane = self._lane_of.get(options)
            if lane is None:
                self._lane_of = {key: other for key, other in self._lane_of.items() if other in self._lanes}
                lane = self._lane_of[options] = Lane(self.loaded, options)
        if lane.expands and lane.completion is None:
            search = replace(options.search.for_one_answer(), return_scores=True)
            lane.completion = self._lane(replace(options, search=search))
            lane.completion.completes = True
        return lane

    def _add(self, lane: Lane, parts: list[tuple[Handle[T], Request, int]], priority: int) -> None:
        """Add requests to a queue, each with its handle and the index of its alternative. The lock is held."""
        requests = []
        for handle, request, part in parts:
            requests.append(request)
            self._handles[request.index] = handle
            handle._parts[request.index] = (lane, part)
        if lane not in self._lanes:
            many = len(self._lanes) >= MOST_LANES
            self._lanes = (*(old for old in self._lanes if not many or old.queue.unfinished), lane)
        lane.queue.add(requests, priority)
        for worker in self._workers:
            worker.interrupt()
        if self._sleeping:
            self._changed.notify_all()

    def _settle(self, lane: Lane, finished: Finished) -> list[Handle[T]]:
        """Store the hypotheses of finished requests; returns the handles that finished."""
        handles: list[Handle[T]] = []
        with self._lock:
            for request, hypotheses in finished:
                handle = self._handles.get(request.index)
                if handle is None:  # it was cancelled
                    continue
                _, part = handle._parts[request.index]
                if lane.expands:
                    self._complete(lane, handle, request, hypotheses)
                else:
                    handle._hypotheses[part : part + 1] = hypotheses  # all, or the one of an alternative
                    handle._complete = len(handle._parts) == 1
                del handle._parts[request.index]  # late, since it is done without any
                del self._handles[request.index]
                if handle._complete:
                    handles.append(handle)
            self.pending -= len(handles)
            if self._sleeping and not self.pending:
                self._changed.notify_all()
        for handle in handles:
            handle._end()
        return handles

    def _complete(self, lane: Lane, handle: Handle[T], request: Request, beginnings: list[Hypothesis]) -> None:
        """Submit a request to complete each of `beginnings`, as a longer prefix. The lock is held."""
        # If no token was allowed after the prefix, the search completes the request as it is.
        prefixes: list[Prefix | None] = [Prefix.of(hypothesis) for hypothesis in beginnings] or [request.prefix]
        handle._hypotheses = [MISSING] * len(prefixes)
        parts = [replace(request, index=next(self._numbers) % NUMBERS, prefix=prefix) for prefix in prefixes]
        assert lane.completion is not None
        self._add(lane.completion, [(handle, part, n) for n, part in enumerate(parts)], handle.priority)
        lane.completion.queue.final = self._sealed and not lane.queue.unfinished

    def _fail(self, requests: Sequence[int], error: BaseException) -> list[Handle[T]]:
        """End the handles of `requests` with an error."""
        failed = [handle for handle in dict.fromkeys(map(self._handles.get, requests)) if handle is not None]
        for handle in failed:
            self._drop(handle)
            handle._end(error)
        return failed

    def _drop(self, handle: Handle[T]) -> None:
        """Drop the requests of a handle, waiting or in flight."""
        with self._lock:
            parts, handle._parts = handle._parts, {}
            for index, (lane, _) in parts.items():
                self._handles.pop(index, None)
                if not lane.queue.cancel(index):
                    for worker in self._workers:
                        worker.cancel(lane, index)
            self.pending -= bool(parts)
            if self._sleeping and not self.pending:
                self._changed.notify_all()
