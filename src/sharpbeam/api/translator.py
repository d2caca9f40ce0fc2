"""What users call: texts in, translations out, in the order asked."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sharpbeam.api.inputs import check_texts
from sharpbeam.api.prefixes import Prefixes, encode_prefixes
from sharpbeam.decoding.languages import Direction
from sharpbeam.decoding.results import EMPTY, Answer, Translation
from sharpbeam.decoding.session import LoadedModel, Setup
from sharpbeam.decoding.trace import Trace
from sharpbeam.errors import InputError
from sharpbeam.options.decode import DecodeOptions, LanguageOptions
from sharpbeam.options.schema import require
from sharpbeam.types import Request

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from sharpbeam.options.keywords import DecodeKeywords

__all__ = ["Answer", "Translation", "Translator"]

log = logging.getLogger("sharpbeam")


class Translator(LoadedModel):
    """A translation model, ready to use. Its methods may be called from several threads at once.

    The keyword options of its methods are the fields of SearchOptions, ScheduleOptions, OutputLayerOptions and
    LanguageOptions (beam_size, num_hypotheses, length_penalty, early_stopping, max_length, schedule and others);
    an unknown name or a wrong value raises OptionError. Options that many calls share may be built once and passed as
    `options`, a DecodeOptions; keywords change those. `work` counts what all searches so far took.

    A multilingual model is told by `source_language` and `target_language` what it should do.

    `target_prefix` gives for each text what its translations have to begin with, or None; a str stands for all of them.
    As in CTranslate2 the tokens of the prefix belong to the answer and count for lengths and their penalty, but add
    nothing to its score (their token scores are 0).
    """

    task = "translation"

    def translate(
        self,
        texts: Sequence[str],
        *,
        target_prefix: Prefixes = None,
        progress: Callable[[int], None] | None = None,
        options: DecodeOptions | None = None,
        **keywords: Unpack[DecodeKeywords],
    ) -> list[Translation]:
        """Translate `texts`, one translation for each, in their order.

        `progress` is called with the number of texts that were just done. An empty text, or one of spaces only,
        has an empty translation.
        """
        done: dict[int, Translation] = {}
        with closing(self.translate_iter(texts, target_prefix=target_prefix, options=options, **keywords)) as results:
            for index, translation in results:
                done[index] = translation
                if progress is not None:
                    progress(1)
        return [done[index] for index in range(len(texts))]

    def translate_iter(
        self,
        texts: Sequence[str],
        *,
        target_prefix: Prefixes = None,
        options: DecodeOptions | None = None,
        **keywords: Unpack[DecodeKeywords],
    ) -> Generator[tuple[int, Translation], None, None]:
        """Yield (place in `texts`, translation) as they are done, which is not the order asked.

        Closing the iterator stops the work and its threads. Options and texts are checked at once, not at the first
        result.
        """
        choices = (options or self.defaults).changed(**keywords)
        self._check(choices)
        requests, truncated = self._requests(texts, choices.schedule.max_input_length, choices.languages)
        requests = self._begun(requests, target_prefix, len(texts), choices)
        return self._translate(texts, requests, truncated, choices)

    def trace(
        self,
        text: str,
        *,
        target_prefix: str | None = None,
        options: DecodeOptions | None = None,
        **keywords: Unpack[DecodeKeywords],
    ) -> Trace:
        """Every step of the beam search of one text: rows, candidates and what became of them, and why it stopped."""
        choices = (options or self.defaults).changed(**keywords)
        requests, _ = self._requests([text], choices.schedule.max_input_length, choices.languages)
        if not requests:
            raise InputError("the text is empty; there is nothing to search.")
        (request,) = self._begun(requests, target_prefix, 1, choices)
        return self._trace(text, request, choices)

    def setup(self, texts: Sequence[str], choices: DecodeOptions) -> Setup:
        """What one beam search of `texts` takes, for those who run it themselves; empty texts are left out.

        Raises OptionError, ModelError or InputError where `translate` would, for what is no beam search alone
        (samples, alternatives, attention, a coverage penalty), and where no text is left.
        """
        requests, _ = self._requests(texts, choices.schedule.max_input_length, choices.languages)
        return self._setup("a run", self._begun(requests, None, len(texts), choices), choices)

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        options: DecodeOptions | None = None,
        **keywords: Unpack[DecodeKeywords],
    ) -> list[Answer]:
        """How likely the model thinks each target is as the translation of its source, by forced decoding.

        The target is cut into pieces by the vocabulary and ends in eos, so an empty one is scored too. Of the
        options length_penalty, batch_tokens and max_input_length matter. Raises InputError for lists of different
        lengths, for an empty source, which has no translation to score, and for a target that is longer than the model
        has positions for.
        """
        choices = (options or self.defaults).changed(**keywords)
        check_texts(targets, "target")
        requests, _ = self._requests(sources, choices.schedule.max_input_length, choices.languages)
        if len(sources) != len(targets):
            raise InputError(f"{len(sources)} sources but {len(targets)} targets; give one target for each source.")
        if len(requests) < len(sources):
            empty = min(set(range(len(sources))) - {request.index for request in requests})
            raise InputError(f"source {empty} is empty, so its target cannot be scored; leave the pair out.")
        eos = self.parts.model.eos_id
        tag, encode = self.parts.language_tags.direction(choices.languages).prefix, self.parts.target.encode
        tokens = {i: np.array([*tag, *encode(text), eos], np.int32) for i, text in enumerate(targets)}
        most = self.parts.max_positions
        for i, ids in tokens.items():
            if 0 < most < len(ids):
                raise InputError(f"target {i} has {len(ids)} tokens, eos counted; the model has positions for {most}.")
        scored = self._force(requests, tokens, choices)
        for log_probs in scored.values():
            log_probs[: len(tag)] = 0.0  # it is forced, and adds nothing, when a text is translated too
        penalty = choices.search.length_penalty
        return [self._scored(targets[i], tokens[i], scored[i], penalty) for i in range(len(sources))]

    def _translate(
        self, texts: Sequence[str], requests: list[Request], truncated: set[int], choices: DecodeOptions
    ) -> Generator[tuple[int, Translation], None, None]:
        attends = choices.search.return_attention
        text = self.parts.language_tags.direction(choices.languages).text
        sources = {request.index: request.source[text].tolist() for request in requests} if attends else {}
        for index in sorted(set(range(len(texts))) - {request.index for request in requests}):
            yield index, Translation(texts[index], (replace(EMPTY, attention=() if attends else None),))
        with closing(self._decode(requests, choices)) as results:
            for index, hypotheses in results:
                answers = tuple(self._answer(hypothesis) for hypothesis in hypotheses)
                pieces = tuple(map(self.parts.source.piece, sources.get(index, ())))
                yield index, Translation(texts[index], answers, index in truncated, pieces)

    def _begun(
        self, requests: Sequence[Request], prefixes: Prefixes, count: int, choices: DecodeOptions
    ) -> list[Request]:
        """`requests` of `count` texts with what their translations have to begin with, the language's tag first."""
        tag, beta = self.parts.language_tags.direction(choices.languages).prefix, choices.search.prefix_bias_beta
        require(not beta or prefixes is not None, "prefix_bias_beta", beta, "0 without a target_prefix")
        require(not beta or not tag, "prefix_bias_beta", beta, "0 where answers begin with a language's tag")
        begin = encode_prefixes(prefixes, count, self.parts.target, choices.search.max_length, tag)
        return [replace(request, prefix=begin.get(request.index)) for request in requests]

    def _requests(
        self, texts: Sequence[str], max_input_length: int, languages: LanguageOptions | None = None
    ) -> tuple[list[Request], set[int]]:
        """Texts as requests, without the empty ones; and the places of those that had to be cut."""
        check_texts(texts, "text")
        direction = self.parts.language_tags.direction(languages or LanguageOptions())
        requests, truncated = [], set()
        room, why = self._room(direction, max_input_length)
        for index, text in enumerate(texts):
            ids = [] if not text.strip() else self.parts.source.encode(text)
            if not ids:
                continue
            if room < len(ids):
                truncated.add(index)
                log.warning(
                    "text %d has %d tokens; all after the first %d are cut off (%s)", index, len(ids), room, why
                )
                del ids[int(room) :]
            source = [*direction.before, *ids, *direction.behind]
            requests.append(Request(index, np.array(source, np.int32), languages=direction.languages))
        return requests, truncated

    def _room(self, direction: Direction, max_input_length: int) -> tuple[float, str]:
        """For how many tokens of a text there is room, beside eos and tags, and by what; infinity without a bound."""
        bounds: list[tuple[float, str]] = [(math.inf, "")]
        if max_input_length:
            eos = len(self.parts.language_tags.end)
            bounds.append((max_input_length - eos, f"max_input_length is {max_input_length}" + ", eos counted" * eos))
        if positions := self.parts.max_positions:
            around = len(direction.before) + len(direction.behind)
            why = f"the model has positions for {positions}, of which eos and tags take {around}"
            bounds.append((max(0, positions - around), why))
        return min(bounds)
