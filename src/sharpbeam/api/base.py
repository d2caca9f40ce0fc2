"""Common part of Translator, Generator and Scorer: a loaded model and default options."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from sharpbeam.decoding.handle import Handle, T
from sharpbeam.decoding.inputs import Prefixes
from sharpbeam.decoding.loading import LoadedModel, ModelName, load_model
from sharpbeam.decoding.session import ONLINE, Session
from sharpbeam.models.registry import Task
from sharpbeam.options.decode import DecodeOptions, MachineOptions, given_options
from sharpbeam.options.keywords import DecodeKeywords, ModelKeywords, Unpack
from sharpbeam.options.schema import fields_of, require, type_hints, unknown
from sharpbeam.output_layers.interface import OutputLayer
from sharpbeam.search.work import Work

Item = TypeVar("Item")
MOST_SESSIONS = 16  # that are kept for the next calls
_ELSEWHERE = {  # methods of CTranslate2, by what does the same here
    "translate_batch": "use translate(texts): it takes texts, not tokens, and forms batches",
    "translate_iterable": "use translate_iter(texts), which takes texts, not tokens",
    "translate_file": "use sharpbeam.translate_file(translator, source, output)",
    "generate_batch": "use generate(texts): it takes texts, not tokens, and forms batches",
    "score_batch": "use score(...): it takes texts, not tokens, and forms batches",
}


class ModelUser:
    """Base of classes that hold a loaded model. Can be pickled: the other process loads the model again."""

    task: ClassVar[Task]
    loaded: LoadedModel
    """The model, its vocabularies and output layers."""

    def __init__(
        self, model: ModelName, *, machine: MachineOptions | None = None, **options: Unpack[ModelKeywords]
    ) -> None:
        """Load `model`: a folder, a bundled name, one to fetch ("firefox:en-pt"), or an ensemble.

        An ensemble is a list of models, or a str with "+" between them.

        Options are those of the machine (threads=2, compute_type="int8"; or all of them as `machine`) and defaults of
        all calls (output_layer="scan", beam_size=4). Raises ModelError if a folder is not a sound model for this task,
        OptionError for an unknown name or a wrong value.
        """
        for name in options.keys() - fields_of(MachineOptions).keys() - DecodeOptions().by_name().keys():
            raise unknown(name, (MachineOptions, *type_hints(DecodeOptions).values()))
        of_machine: Any = {name: value for name, value in options.items() if name in fields_of(MachineOptions)}
        if machine is not None:
            require(isinstance(machine, MachineOptions), "machine", machine, "MachineOptions")
            names = ", ".join(of_machine)
            require(not of_machine, "machine", machine, f"left out if its options are given by name: {names}")
        decode: Any = {name: value for name, value in options.items() if name not in of_machine}
        machine = machine or MachineOptions(**of_machine)
        self._load(model, machine, decode)

    def _load(self, model: ModelName, machine: MachineOptions, decode: DecodeKeywords) -> None:
        self.loaded = load_model(model, machine, self.task, **decode)
        folders = tuple(folder.resolve() for folder in self.loaded.folders)  # for another working directory
        self._state = (folders, machine, decode)
        self._sessions: dict[DecodeOptions, Session[Any]] = {}  # open ones, without requests

    def __getstate__(self) -> tuple[Any, ...]:
        return self._state

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._load(*state)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'+'.join(map(str, self.loaded.folders))!r})"

    if not TYPE_CHECKING:  # a type checker knows which names there are

        def __getattr__(self, name: str) -> Any:
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            message += f"; {_ELSEWHERE[name]}." if name in _ELSEWHERE else ""
            raise AttributeError(message, name=name, obj=self)

    @property
    def defaults(self) -> DecodeOptions:
        """Options of calls: those given to the constructor, then the defaults of the model, then ours."""
        return self.loaded.options

    @property
    def work(self) -> Work:
        """Work of all searches so far, without forced decoding."""
        return self.loaded.work

    def output_layer(self, options: DecodeOptions) -> OutputLayer:
        """The output layer that the options ask for; raises ModelError if the model has none."""
        return self.loaded.output_layer(options)

    def _options(self, options: DecodeOptions | None, keywords: DecodeKeywords) -> DecodeOptions:
        """The options of a call."""
        return given_options(options, self.loaded.options).changed(**keywords)


class TextDecoder(ModelUser, Generic[T]):
    """A model that gives an answer T to each text: Translator and Generator."""

    def session(self, *, options: DecodeOptions | None = None, **keywords: Unpack[DecodeKeywords]) -> Session[T]:
        """Open a session, which takes texts while others are decoded; the options are the defaults of its requests.

        Unless `schedule` is given, a text enters as soon as there is capacity.
        """
        settings = given_options(options, self.loaded.options)
        if "schedule" not in keywords and settings.schedule.schedule == "batches":
            keywords = DecodeKeywords(**{"schedule": "stream", "refill_at": ONLINE.refill_at, **keywords})
        return Session(self.loaded, settings.changed(**keywords))

    def _decode(
        self, texts: Sequence[str], options: DecodeOptions, target_prefix: Prefixes = None
    ) -> Generator[tuple[int, T], None, None]:
        """Decode `texts` in a session of their own; yields (index in `texts`, answer) as they finish.

        Options and texts are checked at once. Closing the iterator stops the work and its threads.
        """
        session = self._sessions.pop(options, None)
        if session is None or session.loaded is not self.loaded:
            session = Session(self.loaded, options)
        try:
            handles = session.submit_all(texts, target_prefix=target_prefix)
        except Exception:
            self._keep(session)
            raise
        session.seal()
        return self._answers(session, handles)

    def _answers(self, session: Session[T], handles: Sequence[Handle[T]]) -> Generator[tuple[int, T], None, None]:
        """Take steps until all requests of a session are done; yields (index, answer) as they finish."""
        index = dict(zip(handles, range(len(handles)), strict=True))
        try:
            for handle in handles if len(handles) == 1 else chain(filter(Handle.done, handles), session.run()):
                yield index[handle], handle.result()
        finally:
            self._keep(session)

    def _keep(self, session: Session[T]) -> None:
        """Keep a session for the next call with its options, or close it."""
        if not session.renew():
            session.close()
            return
        for options in tuple(self._sessions) if len(self._sessions) >= MOST_SESSIONS else ():
            if other := self._sessions.pop(options, None):  # no other call has it
                other.close()
        if self._sessions.setdefault(session.options, session) is not session:  # another call was faster
            session.close()


def in_order(
    results: Generator[tuple[int, Item], None, None], count: int, progress: Callable[[int], None] | None
) -> list[Item]:
    """The `count` results in the order of the inputs; `progress` is called with the number of new ones."""
    result_of: dict[int, Item] = {}
    try:
        for index, result in results:
            result_of[index] = result
            if progress is not None:
                progress(1)
    finally:
        results.close()
    return list(map(result_of.__getitem__, range(count)))
