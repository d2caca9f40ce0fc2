"""What Translator, Generator and Scorer share: a loaded model, its output layers, and runs by several workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from sharpbeam.decoding.alternatives import Results, decode_alternatives
from sharpbeam.decoding.attention import open_attending, with_attention
from sharpbeam.decoding.coverage import with_coverage
from sharpbeam.decoding.forced import force
from sharpbeam.decoding.loading import find_models, load_ensemble, load_output_layer
from sharpbeam.decoding.loop import decode
from sharpbeam.decoding.results import Answer
from sharpbeam.decoding.teams import Teams
from sharpbeam.decoding.trace import Recorder, Trace
from sharpbeam.decoding.workers import run_workers
from sharpbeam.errors import InputError, ModelError, OptionError
from sharpbeam.models.registry import Task
from sharpbeam.options.decode import DecodeOptions, MachineOptions, OutputLayerOptions
from sharpbeam.options.schema import build, require
from sharpbeam.output_layers.by_language import ByLanguage
from sharpbeam.output_layers.interface import Normalising, OutputLayer
from sharpbeam.output_layers.suppressed import without
from sharpbeam.scheduling.plan import Plan
from sharpbeam.scheduling.queue import RequestQueue, token_budget
from sharpbeam.search.beam import BeamSearch, check_width
from sharpbeam.search.cube import CubeSearch
from sharpbeam.search.expansion import Expansion
from sharpbeam.search.native_beam import NativeBeamSearch
from sharpbeam.search.sampling import SamplingSearch
from sharpbeam.search.work import Work
from sharpbeam.storage.model_folder import read_decoding
from sharpbeam.types import Floats, Hypothesis, Ids, Request

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from sharpbeam.options.keywords import MachineKeywords

CountingSearch: TypeAlias = "BeamSearch | SamplingSearch | Expansion"


@dataclass(frozen=True)
class Setup:
    """What a beam search on one thread takes beside an opened model and a schedule; checked, so that it can run."""

    requests: list[Request]  # at least one
    layer: OutputLayer  # without the words that the model must never produce
    make_search: Callable[[], BeamSearch]  # of one run


def _machine(machine: MachineOptions | None, options: Mapping[str, object]) -> MachineOptions:
    """The options of the machine, given as such or by name; raises OptionError."""
    if machine is None:
        return build(MachineOptions, options, "machine options")
    require(isinstance(machine, MachineOptions), "machine", machine, "MachineOptions")
    require(not options, "machine", machine, f"left out where its options are given by name: {', '.join(options)}")
    return machine


def _own_options(folder: Path) -> DecodeOptions:
    """The options that the model in `folder` brings along; raises ModelError where they are not sound."""
    try:
        return DecodeOptions().changed(**read_decoding(folder))
    except OptionError as error:
        raise ModelError(f"{folder / 'config.json'}: decoding: {error}") from None


class LoadedModel:
    """A model, ready to use. Its methods may be called from several threads at once."""

    task: ClassVar[Task]

    def __init__(
        self,
        model: str | Path | Sequence[str | Path],
        *,
        machine: MachineOptions | None = None,
        **options: Unpack[MachineKeywords],
    ) -> None:
        """Load `model`, a folder or the name of a bundled model; raises ModelError.

        A list of models, or a str with "+" between them, is an ensemble (`models/ensemble.py`). What the machine should
        do is given as `machine`, or by the names of its options: threads=2, compute_type="int8". An unknown name or a
        wrong value raises OptionError.
        """
        machine = _machine(machine, options)
        self.folders = find_models(model)
        self.folder = self.folders[0]
        self._machine = machine
        self.parts = load_ensemble(self.folders, machine, self.task)
        self.defaults = _own_options(self.folder)
        """Options of calls that give none: the model's own, from its folder, and ours for the others."""
        self._layers: dict[str, OutputLayer] = {}  # output layers beside the exact one, read when first asked for
        self._lock = Lock()
        self._teams = Teams(machine.workers if machine.backend == "native" else 1)
        self.work = Work()
        """What all searches so far took; forced scores are not counted."""

    def layer_named(self, name: str) -> OutputLayer:
        """The output layer `name`, as in OutputLayerOptions; raises ModelError where the model has none.

        Raises OptionError where an ensemble can have none of that name.
        """
        if name == "exact":
            return self.parts.output_layer
        if len(self.folders) > 1 and name != "scan":
            raise OptionError(
                f"output_layer is {name!r}; it must be exact or scan for an ensemble: other layers are fitted to one "
                "model, and kept in its folder."
            )
        with self._lock:
            return load_output_layer(name, self.folder, self.parts, self._machine, self._layers)

    def output_layer(self, choices: OutputLayerOptions) -> OutputLayer:
        """The output layer that the options ask for; raises ModelError where the model has none."""
        layer = self.layer_named(choices.output_layer)
        if choices.normalise:
            return layer
        if not isinstance(layer, Normalising):
            raise OptionError(f"normalise is False; it must be true with output_layer {choices.output_layer}.")
        return layer.unnormalised()

    def _check(self, choices: DecodeOptions) -> None:
        """Raise OptionError or ModelError, before any work, where the choices do not fit the model."""
        if not choices.search.sampling:
            check_width(choices.search, self.parts.output_layer.vocab_size)
        layer = self.output_layer(choices.output)
        if isinstance(layer, ByLanguage):
            layer.scope(self.parts.language_tags.direction(choices.languages).languages)
        bound, asked = self.parts.max_positions, choices.search.max_length
        require(not bound or asked <= bound, "max_length", asked, f"at most {bound}, for which the model has positions")
        if choices.search.attends:
            by = "return_attention" if choices.search.return_attention else "coverage_penalty"
            open_attending(self.parts.model, by)

    def _decode(self, requests: list[Request], choices: DecodeOptions) -> Results:
        """Yield (request index, its hypotheses, best first) as they are done; closing it stops the work."""
        if not choices.search.return_alternatives:
            return self._run(requests, choices, self._search)
        one = replace(choices, search=choices.search.for_one_answer())
        words = replace(choices, search=replace(choices.search, return_attention=False, coverage_penalty=0.0))
        return decode_alternatives(
            requests,
            lambda given: self._run(given, words, self._expansion),
            lambda given: self._run(given, one, self._search),
        )

    def _run(
        self, requests: list[Request], choices: DecodeOptions, make_search: Callable[[DecodeOptions], CountingSearch]
    ) -> Results:
        """The same with any search, which is made for each worker."""
        model, output_layer = self.parts.model, without(self.output_layer(choices.output), self.parts.suppressed)
        plan = Plan(requests, choices.schedule, choices.search.most_rows, self._machine.workers, self.parts.footprint)
        searches: list[CountingSearch] = []
        asked = choices.search
        by_index = {request.index: request for request in requests} if asked.attends else {}
        text = self.parts.language_tags.direction(choices.languages).text if asked.attends else slice(None)
        wider = replace(choices, search=asked.for_coverage())

        def work() -> Iterator[tuple[int, list[Hypothesis]]]:
            search = make_search(wider)
            searches.append(search)
            found = decode(model.open(), output_layer, search, plan.schedule(workers), teams.pop())
            if not asked.attends:
                return found
            found = with_attention(open_attending(model), found, by_index, model.bos_id, model.eos_id, text)
            if not asked.coverage_penalty:
                return found
            return with_coverage(found, asked.coverage_penalty, asked.num_hypotheses, asked.return_attention)

        workers = plan.workers
        try:
            with self._teams.lend(workers) as teams, closing(run_workers(work, plan.queue.close, workers)) as results:
                yield from results
        finally:
            with self._lock:
                for search in searches:
                    self.work.add(search.work)

    def _setup(self, what: str, requests: list[Request], choices: DecodeOptions, watched: bool = False) -> Setup:
        """One beam search of `requests`; raises OptionError, which names `what` it is for, where another is asked for.

        Raises InputError where there are no requests.
        """
        asked = choices.search
        one_search = not (asked.sampling or asked.return_alternatives or asked.attends)
        kinds = "of samples, alternatives, attention or a coverage penalty"
        require(one_search, what, kinds, "of one beam search; leave the option out")
        self._check(choices)
        if not requests:
            raise InputError("the text is empty; there is nothing to decode.")
        layer = without(self.output_layer(choices.output), self.parts.suppressed)
        return Setup(requests, layer, lambda: self._beam_search(choices, watched))

    def _trace(self, text: str, request: Request, choices: DecodeOptions) -> Trace:
        """The record of one beam search; raises OptionError for another one."""
        setup = self._setup("a trace", [request], choices, watched=True)
        search, recorder = setup.make_search(), Recorder(self.parts.target.piece)
        search.observer = recorder
        schedule = Plan([request], choices.schedule, choices.search.most_rows, 1, self.parts.footprint).schedule()
        ((_, hypotheses),) = decode(self.parts.model.open(), setup.layer, search, schedule)
        pieces = tuple(self.parts.source.piece(token) for token in request.source.tolist())
        return Trace(text, pieces, recorder.steps, recorder.why, tuple(self._answer(h) for h in hypotheses))

    def _force(self, requests: list[Request], targets: Mapping[int, Ids], choices: DecodeOptions) -> dict[int, Floats]:
        """Log probability of each target token [T], by request index."""
        model, output_layer = self.parts.model, self.output_layer(choices.output)
        queue = RequestQueue(requests)
        queue.batch_tokens = token_budget(queue.tokens, choices.schedule.batch_tokens, self._machine.workers)

        def work() -> Iterator[tuple[int, Floats]]:
            return force(model.open(), output_layer, targets, model.bos_id, queue)

        return dict(run_workers(work, queue.close, queue.batches(self._machine.workers)))

    def _expansion(self, choices: DecodeOptions) -> Expansion:
        model = self.parts.model
        return Expansion(choices.search, model.bos_id, model.eos_id, self.parts.output_layer.vocab_size)

    def _search(self, choices: DecodeOptions) -> BeamSearch | SamplingSearch:
        if not choices.search.sampling:
            return self._beam_search(choices)
        model, output_layer = self.parts.model, self.parts.output_layer
        return SamplingSearch(choices.search, choices.sampling, model.bos_id, model.eos_id, output_layer.vocab_size)

    def _beam_search(self, choices: DecodeOptions, watched: bool = False) -> BeamSearch:
        """In Python where it is to be watched, which gives the same answers."""
        model, output_layer, options = self.parts.model, self.parts.output_layer, choices.search
        kind = CubeSearch if options.cube_pruning != "none" else BeamSearch
        if NativeBeamSearch.serves(options) and not watched:
            kind = NativeBeamSearch
        return kind(options, model.bos_id, model.eos_id, output_layer.vocab_size)

    def _answer(self, hypothesis: Hypothesis) -> Answer:
        """A hypothesis as text."""
        vocabulary, ids = self.parts.target, hypothesis.tokens
        pieces = tuple(vocabulary.piece(token) for token in ids)
        text = vocabulary.decode(ids)
        attention = None if hypothesis.attention is None else tuple(map(tuple, hypothesis.attention.tolist()))
        return Answer(text, hypothesis.score, hypothesis.log_prob, pieces, hypothesis.token_log_probs, attention)

    def _scored(self, text: str, tokens: Ids, log_probs: Floats, penalty: float) -> Answer:
        """A given text, whose tokens [T] end in eos, with the log probability of each one."""
        scores = tuple(log_probs.tolist())
        pieces = tuple(self.parts.target.piece(token) for token in tokens[:-1].tolist())
        return Answer(text, sum(scores) / len(scores) ** penalty, sum(scores), pieces, scores)
