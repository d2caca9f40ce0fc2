"""Lanes of a session: requests with the same options are decoded together; each worker has a run in every lane."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from threading import Lock

from sharpbeam._core import Team
from sharpbeam.decoding.attention import AttendedRun
from sharpbeam.decoding.loading import LoadedModel
from sharpbeam.decoding.loop import Alone, Finished, Run
from sharpbeam.options.decode import DecodeOptions, ScheduleOptions, given_options
from sharpbeam.options.keywords import DecodeKeywords
from sharpbeam.options.schema import fields_of, require
from sharpbeam.output_layers.suppressed import without
from sharpbeam.scheduling.memory import Usage
from sharpbeam.scheduling.plan import Plan
from sharpbeam.search.interface import Search
from sharpbeam.search.native import Expansion, SamplingSearch
from sharpbeam.search.registry import SearchInputs, find_search
from sharpbeam.types import Hypothesis

MOST_IDLE = 16  # options whose runs are kept
FEW_REQUESTS = 8  # in flight at a time, of a run that is kept: the caches of more would be held for nothing

_OF_SESSION = fields_of(ScheduleOptions).keys() - {"max_input_length"}

Outcome = Finished | tuple[list[int], Exception]
"""Requests that are done; or those that an error ended, and the error."""


class Lane:
    """Requests of a session with the same options: their queue, and what a run needs to decode them."""

    def __init__(self, loaded: LoadedModel, options: DecodeOptions) -> None:
        """Raises OptionError or ModelError if the options do not fit the model."""
        self.options, self.loaded, search = options, loaded, options.search
        self.expands = search.return_alternatives
        """Whether an answer is the first tokens of alternatives, each of which another lane completes."""
        idle = loaded.idle.get(options)
        if idle is None:
            loaded.check(options)
            self.search()  # refuses what only the core refuses
        self.layer = idle[0] if idle else loaded.output_layer(options, log_prob=search.needs_log_prob)
        self.usable = without(self.layer, loaded.suppressed)  # without the tokens that the model must never produce
        self.stateful = options.schedule.schedule != "batches" or search.sampling or self.expands
        """Whether requests leave something in the lane: counts of a stream, random numbers, the lane of completions."""
        self.completion: Lane | None = None
        self.completes = False  # whether it is the completion of another
        self.queue = Plan([], options.schedule, search.most_rows, loaded.workers, loaded.footprint)
        self.queue.final = False

    def open(self, workers: int, shared: Usage) -> Run:
        """Open the decoding run of one of `workers`; the schedules of a worker share its memory."""
        loaded, options, schedule = self.loaded, self.options.search, self.queue.schedule(workers, shared)
        idle = loaded.idle.pop(self.options, None)
        if idle is not None:
            _, run = idle
            run.schedule = schedule
            loaded.begin_work(run.search)
            return run
        search = self.search()
        loaded.begin_work(search)
        if not options.attends or self.expands:
            return Run(loaded.model.open(), self.usable, search, schedule)
        return AttendedRun(loaded, self.usable, search, schedule, options)

    def search(self) -> Search:
        """A search for one run."""
        options, loaded = self.options, self.loaded
        bos_id, eos_id, size = loaded.model.bos_id, loaded.model.eos_id, loaded.vocab_size
        if self.expands:
            plain = replace(options.search, return_attention=False, coverage_penalty=0.0)
            return Expansion(plain, bos_id, eos_id, size)
        if options.search.sampling:
            return SamplingSearch(options.search, options.sampling, bos_id, eos_id, size)
        wider = options.search.for_coverage()
        options = options if wider is options.search else replace(options, search=wider)
        return find_search(wider.search)(SearchInputs(options, bos_id, eos_id, size))

    def close(self, run: Run, *, reusable: bool = False) -> None:
        """Drop what is in flight in `run`, and count its work; a `reusable` one is kept for another session."""
        for request in run.flight:
            run.schedule.leave(request)
        self.loaded.end_work(run.search)
        if reusable and not (self.options.search.sampling or run.requests) and run.most_requests <= FEW_REQUESTS:
            idle = self.loaded.idle
            if len(idle) >= MOST_IDLE:
                idle.clear()
            idle[self.options] = self.layer, run


def request_options(session: DecodeOptions, options: DecodeOptions | None, keywords: DecodeKeywords) -> DecodeOptions:
    """The options of a request in a session, whose schedule is that of `session`; raises OptionError."""
    for name in keywords.keys() & _OF_SESSION if keywords else ():
        require(False, name, keywords.get(name), "set for the session, not for one of its requests")
    if options is None:
        return session.changed(**keywords)
    options = given_options(options, session).changed(**keywords)
    longest = options.schedule.max_input_length
    return replace(options, schedule=replace(session.schedule, max_input_length=longest))


@lru_cache(maxsize=64)
def lane_options(session: DecodeOptions, request: DecodeOptions) -> DecodeOptions:
    """The options of the lane of a request: languages and max_input_length may differ within a lane."""
    return replace(request, languages=session.languages, schedule=session.schedule)


class Worker:
    """The decoding runs of one worker, one for each lane. Any thread may call its methods."""

    def __init__(self) -> None:
        self.runs: dict[Lane, Run] = {}
        self.workers = 1
        """Number of workers that share requests and memory; applies to runs that are opened later."""
        self._memory = Usage()
        self._lock = Lock()
        self._turnstile = Lock()  # its holder gets the lock next

    @property
    def busy(self) -> bool:
        """Whether there is something to do."""
        return any(run.busy for run in tuple(self.runs.values()))

    def step(self, lanes: Collection[Lane], team: Team, alone: Alone = "one step") -> list[tuple[Lane, Outcome]]:
        """Take one step in each of `lanes`; `team` shares the work of a matmul.

        Returns the finished requests. `alone` holds if no other lane has any. An error ends the run in which it occurs.
        """
        outcomes: list[tuple[Lane, Outcome]] = []
        alone = alone if sum(lane.queue.unfinished > 0 for lane in lanes) == 1 else "one step"
        with self._turnstile:
            pass
        with self._lock:
            for lane in lanes:
                run = self.runs.get(lane)
                if run is None and not len(lane.queue):
                    continue
                try:
                    if run is None:
                        for other in self.runs.keys() - lanes:
                            other.close(self.runs.pop(other))
                        run = self.runs[lane] = lane.open(self.workers, self._memory)
                    with team:
                        finished = run.step(alone)
                except Exception as error:
                    outcomes.append((lane, (run.requests if run else lane.queue.drain(), error)))
                    if run:
                        lane.close(self.runs.pop(lane))
                except BaseException:  # an interrupt: what is in flight may be half a step ahead of `run`
                    if run:
                        lane.loaded.end_work(self.runs.pop(lane).search)
                    raise
                else:
                    if finished:
                        outcomes.append((lane, finished))
        return outcomes

    def interrupt(self) -> None:
        """End steps "until others come" after the current one."""
        for run in tuple(self.runs.values()):
            run.interrupt()

    def cancel(self, lane: Lane, request: int) -> None:
        """Drop a request at the next step if it is in flight here."""
        if (run := self.runs.get(lane)) is not None:
            run.cancel(request)

    def peek(self, lane: Lane, request: int) -> tuple[list[Hypothesis], list[int]] | None:
        """`Run.peek` of a request; None if it is not in flight here. Waits for the end of the current step."""
        self.interrupt()
        with self._turnstile, self._lock:
            run = self.runs.get(lane)
            return run.peek(request) if run is not None and request in run.flight else None

    def close(self) -> None:
        """Close all runs after the current step."""
        with self._lock:
            while self.runs:
                lane, run = self.runs.popitem()
                lane.close(run, reusable=True)

    def reusable(self) -> bool:
        """Whether all runs answer as new ones, and are small enough to stay open."""
        return not any(lane.stateful or run.most_requests > FEW_REQUESTS for lane, run in self.runs.items())
