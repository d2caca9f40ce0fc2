"""What users call: texts in, translations out, in the order asked."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from quickbeam.engine.decode import decode
from quickbeam.engine.forced import force
from quickbeam.engine.load import find_model, load_parts, load_projection
from quickbeam.engine.translation import EMPTY, Answer, Translation
from quickbeam.engine.workers import run_workers
from quickbeam.errors import InputError
from quickbeam.options.decode import DecodeOptions, MachineOptions
from quickbeam.projections.door import Projection
from quickbeam.schedule.batches import BatchQueue, FixedBatches, pack
from quickbeam.search.beam import BeamSearch
from quickbeam.types import Floats, Hypothesis, Ids, Request

__all__ = ["Answer", "Translation", "Translator"]

log = logging.getLogger("quickbeam")


class Translator:
    """A translation model, ready to use. Its methods may be called from several threads at once.

    The keyword options of its methods are the fields of SearchOptions, ScheduleOptions and ProjectionOptions
    (beam_size, num_hypotheses, length_penalty, early_stopping, min_length, max_length, batch_tokens,
    max_input_length, projection); an unknown name or a wrong value raises OptionError.
    """

    def __init__(self, model: str | Path, *, machine: MachineOptions = MachineOptions()) -> None:  # noqa: B008 (frozen)
        """Load `model`, a folder or the name of a bundled model; raises ModelError."""
        self.folder = find_model(model)
        self._machine = machine
        self.parts = load_parts(self.folder, machine)
        self._layers: dict[str, Projection] = {}  # output layers beside the exact one, read when first asked for
        self._lock = Lock()

    def translate(
        self, texts: Sequence[str], *, progress: Callable[[int], None] | None = None, **options: Any
    ) -> list[Translation]:
        """Translate `texts`, one translation for each, in their order.

        `progress` is called with the number of texts that were just done. An empty text, or one of spaces only,
        has an empty translation.
        """
        done: dict[int, Translation] = {}
        with closing(self.translate_iter(texts, **options)) as results:
            for index, translation in results:
                done[index] = translation
                if progress is not None:
                    progress(1)
        return [done[index] for index in range(len(texts))]

    def translate_iter(self, texts: Sequence[str], **options: Any) -> Generator[tuple[int, Translation], None, None]:
        """Yield (place in `texts`, translation) as they are done, which is not the order asked.

        Closing the iterator stops the work and its threads. Options and texts are checked at once, not at the first
        result.
        """
        choices = DecodeOptions.from_names(options)
        self._search(choices)
        self.projection(choices.output.projection)
        requests, truncated = self._requests(texts, choices.schedule.max_input_length)
        return self._translate(texts, requests, truncated, choices)

    def score(self, sources: Sequence[str], targets: Sequence[str], **options: Any) -> list[Answer]:
        """How likely the model thinks each target is as the translation of its source, by forced decoding.

        The target is cut into pieces by the vocabulary and ends in eos, so an empty one is scored too. Of the
        options length_penalty, batch_tokens and max_input_length matter. Raises InputError for lists of different
        lengths, and for an empty source, which has no translation to score.
        """
        choices = DecodeOptions.from_names(options)
        _check_texts(targets, "target")
        requests, _ = self._requests(sources, choices.schedule.max_input_length)
        if len(sources) != len(targets):
            raise InputError(f"{len(sources)} sources but {len(targets)} targets; give one target for each source.")
        if len(requests) < len(sources):
            empty = min(set(range(len(sources))) - {request.index for request in requests})
            raise InputError(f"source {empty} is empty, so its target cannot be scored; leave the pair out.")
        model, projection = self.parts.model, self.projection(choices.output.projection)
        tokens = {i: np.array([*self.parts.target.encode(t), model.eos_id], np.int32) for i, t in enumerate(targets)}
        queue = BatchQueue(pack(requests, choices.schedule.batch_tokens))

        def work() -> Iterator[tuple[int, Floats]]:
            return force(model.open(), projection, tokens, model.bos_id, queue)

        scored = dict(run_workers(work, queue, self._workers(queue)))
        penalty = choices.search.length_penalty
        return [self._scored(targets[i], tokens[i], scored[i], penalty) for i in range(len(sources))]

    def projection(self, name: str) -> Projection:
        """The output layer `name`, as in ProjectionOptions; raises ModelError where the model has none."""
        if name == "exact":
            return self.parts.projection
        with self._lock:
            if name not in self._layers:
                self._layers[name] = load_projection(name, self.folder, self.parts, self._machine)
            return self._layers[name]

    def _translate(
        self, texts: Sequence[str], requests: list[Request], truncated: set[int], choices: DecodeOptions
    ) -> Generator[tuple[int, Translation], None, None]:
        model, projection = self.parts.model, self.projection(choices.output.projection)
        queue = BatchQueue(pack(requests, choices.schedule.batch_tokens))

        def work() -> Iterator[tuple[int, list[Hypothesis]]]:
            return decode(model.open(), projection, self._search(choices), FixedBatches(queue))

        for index in sorted(set(range(len(texts))) - {request.index for request in requests}):
            yield index, Translation(texts[index], (EMPTY,))
        with closing(run_workers(work, queue, self._workers(queue))) as results:
            for index, hypotheses in results:
                answers = tuple(self._answer(hypothesis) for hypothesis in hypotheses)
                yield index, Translation(texts[index], answers, truncated=index in truncated)

    def _search(self, choices: DecodeOptions) -> BeamSearch:
        model, projection = self.parts.model, self.parts.projection
        return BeamSearch(choices.search, model.bos_id, model.eos_id, projection.vocab_size)

    def _workers(self, queue: BatchQueue) -> int:
        """No more workers than batches; none for none."""
        return min(self._machine.threads, len(queue))

    def _requests(self, texts: Sequence[str], max_input_length: int) -> tuple[list[Request], set[int]]:
        """Texts as requests, without the empty ones; and the places of those that had to be cut."""
        _check_texts(texts, "text")
        requests, truncated = [], set()
        for index, text in enumerate(texts):
            ids = [] if not text.strip() else self.parts.source.encode(text)
            if not ids:
                continue
            if len(ids) >= max_input_length:
                truncated.add(index)
                log.warning(
                    "text %d has %d tokens; all after the first %d are cut off (max_input_length is %d, eos counted)",
                    *(index, len(ids), max_input_length - 1, max_input_length),
                )
                del ids[max_input_length - 1 :]
            requests.append(Request(index, np.array([*ids, self.parts.model.eos_id], np.int32)))
        return requests, truncated

    def _answer(self, hypothesis: Hypothesis) -> Answer:
        vocabulary, ids = self.parts.target, hypothesis.tokens
        pieces = tuple(vocabulary.piece(token) for token in ids)
        text = vocabulary.decode(ids)
        return Answer(text, hypothesis.score, hypothesis.log_prob, pieces, hypothesis.token_log_probs)

    def _scored(self, text: str, tokens: Ids, log_probs: Floats, penalty: float) -> Answer:
        scores = tuple(log_probs.tolist())
        pieces = tuple(self.parts.target.piece(token) for token in tokens[:-1].tolist())
        return Answer(text, sum(scores) / len(scores) ** penalty, sum(scores), pieces, scores)


def _check_texts(texts: Sequence[str], what: str) -> None:
    """Raise InputError unless `texts` is a sequence of strings that can be written as UTF-8."""
    if isinstance(texts, (str, bytes)):
        raise InputError(f"give a list of {what}s, not a single one: [{what}].")
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"{what} {index} is {text!r}; it must be a str.")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"{what} {index} holds half a character (a surrogate) at {error.start}.") from error
