"""Lanes: requests with the same options, their output layer, and the searches and schedules that decode them."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from threading import Lock

from sharpbeam.decoding.attention import AT_ONCE, attend
from sharpbeam.decoding.loading import LoadedModel
from sharpbeam.decoding.loop import Finished, Run
from sharpbeam.errors import InputError
from sharpbeam.models.interface import Attending
from sharpbeam.options.decode import DecodeOptions, ScheduleOptions
from sharpbeam.options.keywords import DecodeKeywords
from sharpbeam.options.schema import fields_of, require
from sharpbeam.output_layers.interface import OutputLayer
from sharpbeam.output_layers.suppressed import without
from sharpbeam.scheduling.memory import Memory
from sharpbeam.scheduling.plan import Plan
from sharpbeam.search.beam import BeamSearch
from sharpbeam.search.interface import Search
from sharpbeam.search.native import Expansion
from sharpbeam.search.registry import SearchInputs, find_search
from sharpbeam.search.sampling import SamplingSearch
from sharpbeam.search.work import Work
from sharpbeam.types import Hypothesis, Languages, Request

_OF_SESSION = fields_of(ScheduleOptions).keys() - {"max_input_length"}


def of_request(session: DecodeOptions, options: DecodeOptions | None, keywords: DecodeKeywords) -> DecodeOptions:
    """The options of a request in a session, whose schedule is that of `session`; raises OptionError."""
    for name in keywords.keys() & _OF_SESSION:
        require(False, name, keywords.get(name), "set for the session, not for one of its requests")
    if options is None:
        return session.changed(**keywords)
    options = options.changed(**keywords)
    longest = options.schedule.max_input_length
    return replace(options, schedule=replace(session.schedule, max_input_length=longest))


@dataclass(frozen=True)
class Setup:
    """Everything that a beam search on one thread needs except an opened model and a schedule; checked."""

    requests: list[Request]  # at least one
    layer: OutputLayer  # without the tokens that the model must never produce
    options: DecodeOptions
    loaded: LoadedModel

    def make_search(self) -> BeamSearch:
        """The search of one run."""
        model = self.loaded.model
        return BeamSearch(self.options.search, model.bos_id, model.eos_id, self.loaded.vocab_size)


def one_beam_search(loaded: LoadedModel, what: str, requests: list[Request], options: DecodeOptions) -> Setup:
    """The setup of one beam search; raises OptionError, naming `what` needs it, if the options ask for another search.

    Raises InputError if there are no requests.
    """
    asked = options.search
    one_search = asked.search == "beam" and not (asked.sampling or asked.return_alternatives or asked.attends)
    kinds = "of another search, samples, alternatives, attention or a coverage penalty"
    require(one_search, what, kinds, "of one beam search; leave the option out")
    loaded.check(options)
    if not requests:
        raise InputError("the text is empty; there is nothing to decode.")
    return Setup(requests, without(loaded.output_layer(options), loaded.suppressed), options, loaded)


Outcome = Finished | tuple[list[int], Exception]
"""Requests that are done; or those that an error ended, and the error."""


class Lane:
    """Requests with the same options."""

    def __init__(self, loaded: LoadedModel, options: DecodeOptions) -> None:
        """Raises OptionError or ModelError if the options do not fit the model."""
        self.options = options
        """The options of the whole request."""
        self._loaded, asked = loaded, options.search
        loaded.check(options)
        self.layer = loaded.output_layer(options, log_prob=asked.needs_log_prob)
        self._usable = without(self.layer, loaded.suppressed)
        self.expands = asked.return_alternatives
        """Whether an answer is the first tokens of alternatives, each of which another lane completes."""
        self.completion: Lane | None = None
        self.attends = asked.attends and not self.expands
        self.plan = Plan([], options.schedule, asked.most_rows, loaded.workers, loaded.footprint)
        self.plan.queue.final = False

    @property
    def reusable(self) -> bool:
        """Whether a run that has nothing to do any more answers as a new one."""
        return self.options.schedule.schedule == "batches" and not self.options.search.sampling

    def check_languages(self, languages: Languages) -> None:
        """Raise OptionError where the output layer has nothing for `languages`."""
        self.layer.check_languages(languages)

    @property
    def completed(self) -> DecodeOptions:
        """Options for completing alternatives, which have scores."""
        return replace(self.options, search=replace(self.options.search.for_one_answer(), return_scores=True))

    def open(self, workers: int, shared: list[Memory]) -> LaneRun:
        """Open the decoding run of one of `workers`; the schedules of a worker share its memory."""
        return LaneRun(self, self._loaded, self._usable, workers, shared)

    def search(self) -> Search:
        """A search for one run."""
        options, loaded = self.options, self._loaded
        bos_id, eos_id, size = loaded.model.bos_id, loaded.model.eos_id, loaded.vocab_size
        if self.expands:
            plain = replace(options.search, return_attention=False, coverage_penalty=0.0)
            return Expansion(plain, bos_id, eos_id, size)
        if options.search.sampling:
            return SamplingSearch(options.search, options.sampling, bos_id, eos_id, size)
        wider = options.search.for_coverage()
        options = options if wider is options.search else replace(options, search=wider)
        return find_search(wider.search)(SearchInputs(options, bos_id, eos_id, size))


class LaneRun:
    """The decoding run of one worker in one lane, including attention and coverage penalty."""

    def __init__(self, lane: Lane, loaded: LoadedModel, layer: OutputLayer, workers: int, shared: list[Memory]) -> None:
        self.search, self.lane, self.loaded = lane.search(), lane, loaded
        self.run = Run(loaded.model.open(), layer, self.search, lane.plan.schedule(workers, shared))
        self._attending: Attending | None = None
        self._unattended: Finished = []  # finished requests whose attention is not computed yet

    @property
    def busy(self) -> bool:
        """Whether requests are in flight or waiting."""
        return bool(self._unattended) or self.run.schedule.busy

    @property
    def requests(self) -> list[int]:
        """The requests in flight."""
        return [*self.run.flight, *(request.index for request, _ in self._unattended)]

    def cancel(self, request: int) -> None:
        """Drop a request at the next step if it is in flight."""
        self.run.cancel(request)

    def close(self) -> None:
        """Drop what is in flight, and count the work. A run that is done may be used again."""
        for request in self.run.flight:
            self.run.schedule.cancel(request)
        self.loaded.add_work(self.search.work)
        self.search.work = Work()

    def step(self, *, to_end: bool = False) -> Finished:
        """Take one step with all live rows; returns the finished requests with their hypotheses, best first."""
        finished = self.run.step(to_end=to_end)
        if not self.lane.attends:
            return finished
        self._unattended += finished
        waits = (
            self.run.schedule.busy and self.lane.plan.queue.final
        )  # in a sealed session no caller waits for a single answer
        if waits and len(self._unattended) < AT_ONCE:
            return []
        finished = self._attend(self._unattended)
        self._unattended = []
        return finished

    def _attend(self, found: Finished) -> Finished:
        loaded, options = self.loaded, self.lane.options.search
        self._attending = model = self._attending or loaded.open_attending()
        done: Finished = []
        for first in range(0, len(found), AT_ONCE):
            group = found[first : first + AT_ONCE]
            texts = [loaded.language_tags.again(request.languages).text for request, _ in group]
            given = [(request, text, hypotheses) for (request, hypotheses), text in zip(group, texts, strict=True)]
            attended = attend(model, given, options, loaded.model.bos_id, loaded.model.eos_id)
            done += [(request, hypotheses) for (request, _), hypotheses in zip(group, attended, strict=True)]
        return done


class Worker:
    """The decoding runs of one worker, one for each lane. Any thread may call its methods."""

    def __init__(self) -> None:
        self.runs: dict[Lane, LaneRun] = {}
        self.workers = 1
        """Number of workers that share requests and memory; applies to runs that are opened later."""
        self._memory: list[Memory] = []
        self._lock = Lock()
        self._turnstile = Lock()  # its holder gets the lock next

    @property
    def busy(self) -> bool:
        """Whether there is something to do."""
        return any(run.busy for run in tuple(self.runs.values()))

    def step(
        self, lanes: Collection[Lane], team: AbstractContextManager[None], *, to_end: bool = False
    ) -> list[tuple[Lane, Outcome]]:
        """Take one step in each of `lanes`; `team` shares the work of a matmul.

        With `to_end` a request that is alone takes all its steps. Returns the finished requests. An error ends the run
        in which it occurs, and no other.
        """
        outcomes: list[tuple[Lane, Outcome]] = []
        with self._turnstile:
            pass
        with self._lock:
            for lane in lanes:
                run = self.runs.get(lane)
                if run is None:
                    if not len(lane.plan.queue):
                        continue
                    run = self._open(lane, lanes)
                elif not run.busy:
                    continue
                try:
                    with team:
                        finished = run.step(to_end=to_end)
                except Exception as error:
                    outcomes.append((lane, (run.requests, error)))
                    self._forget(lane)
                else:
                    if finished:
                        outcomes.append((lane, finished))
        return outcomes

    def cancel(self, lane: Lane, request: int) -> None:
        """Drop a request at the next step if it is in flight here."""
        if (run := self.runs.get(lane)) is not None:
            run.cancel(request)

    def peek(self, lane: Lane, request: int) -> tuple[list[Hypothesis], list[int]] | None:
        """`Run.peek` of a request; None if it is not in flight here. Waits for the end of the current step."""
        with self._turnstile, self._lock:
            run = self.runs.get(lane)
            return run.run.peek(request) if run is not None and request in run.run.flight else None

    def close(self) -> None:
        """Close all runs."""
        with self._lock:
            for lane in tuple(self.runs):
                self._forget(lane)

    def _open(self, lane: Lane, lanes: Collection[Lane]) -> LaneRun:
        for old in self.runs.keys() - set(lanes):
            self._forget(old)
        run = self.runs[lane] = lane.open(self.workers, self._memory)
        return run

    def _forget(self, lane: Lane) -> None:
        self.runs.pop(lane).close()
