"""What users call to go on with a text: prompts in, continuations out, in the order asked."""

from __future__ import annotations

import logging
from collections import abc
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sharpbeam.api.inputs import check_texts
from sharpbeam.decoding.results import Answer
from sharpbeam.decoding.session import LoadedModel, Setup
from sharpbeam.decoding.trace import Trace
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.types import Request

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from sharpbeam.options.keywords import DecodeKeywords

__all__ = ["Generation", "Generator"]

log = logging.getLogger("sharpbeam")


@dataclass(frozen=True, slots=True)
class Generation:
    """The continuations of one prompt, best first. Their texts and scores are without the prompt."""

    prompt: str  # as it was given
    hypotheses: tuple[Answer, ...]  # at least one
    truncated: bool = False  # the prompt was longer than max_input_length, and its beginning was cut off

    @property
    def text(self) -> str:
        """The best continuation."""
        return self.hypotheses[0].text


class Generator(LoadedModel):
    """A language model that goes on with prompts. Its methods may be called from several threads at once.

    A prompt is the beginning of a sentence, and its continuation ends with it. The keyword options are those of
    `Translator`; an unknown name or a wrong value raises OptionError.
    """

    task = "language"

    def generate(
        self,
        prompts: Sequence[str],
        *,
        progress: Callable[[int], None] | None = None,
        options: DecodeOptions | None = None,
        **keywords: Unpack[DecodeKeywords],
    ) -> list[Generation]:
        """Go on with each of `prompts`, in their order; an empty one asks for whole sentences.

        `progress` is called with the number of prompts that were just done.
        """
        done: dict[int, Generation] = {}
        with closing(self.generate_iter(prompts, options=options, **keywords)) as results:
            for index, generation in results:
                done[index] = generation
                if progress is not None:
                    progress(1)
        return [done[index] for index in range(len(prompts))]

    def generate_iter(
        self, prompts: Sequence[str], *, options: DecodeOptions | None = None, **keywords: Unpack[DecodeKeywords]
    ) -> abc.Generator[tuple[int, Generation], None, None]:
        """Yield (place in `prompts`, generation) as they are done, which is not the order asked.

        Closing the iterator stops the work and its threads. Options and prompts are checked at once.
        """
        choices = (options or DecodeOptions()).changed(**keywords)
        self._check(choices)
        requests, truncated = self._requests(prompts, choices.schedule.max_input_length)

        def results() -> abc.Generator[tuple[int, Generation], None, None]:
            with closing(self._decode(requests, choices)) as decoded:
                for index, hypotheses in decoded:
                    answers = tuple(self._answer(hypothesis) for hypothesis in hypotheses)
                    yield index, Generation(prompts[index], answers, index in truncated)

        return results()

    def trace(self, prompt: str, *, options: DecodeOptions | None = None, **keywords: Unpack[DecodeKeywords]) -> Trace:
        """Every step of the beam search of one prompt: rows, candidates and what became of them, and why it stopped."""
        choices = (options or DecodeOptions()).changed(**keywords)
        requests, _ = self._requests([prompt], choices.schedule.max_input_length)
        return self._trace(prompt, requests[0], choices)

    def setup(self, prompts: Sequence[str], choices: DecodeOptions) -> Setup:
        """What one beam search of `prompts` takes, for those who run it themselves.

        Raises OptionError, ModelError or InputError where `generate` would, for what is no beam search alone (samples,
        alternatives), and for languages.
        """
        self.parts.language_tags.direction(choices.languages)  # raises
        requests, _ = self._requests(prompts, choices.schedule.max_input_length)
        return self._setup("a run", requests, choices)

    def _requests(self, prompts: Sequence[str], most: int) -> tuple[list[Request], set[int]]:
        """Prompts behind the end of a sentence that was not said, and the places of those that had to be cut."""
        check_texts(prompts, "prompt")
        requests, truncated = [], set()
        for index, prompt in enumerate(prompts):
            ids = [self.parts.model.eos_id, *self.parts.source.encode(prompt)]
            if 0 < most < len(ids):
                truncated.add(index)
                log.warning(
                    "prompt %d has %d tokens; all before the last %d are cut off (max_input_length)",
                    *(index, len(ids), most),
                )
            requests.append(Request(index, np.array(ids[-most:], np.int32)))
        return requests, truncated
