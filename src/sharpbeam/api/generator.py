"""Generator: prompts in, continuations out, in the same order."""

from __future__ import annotations

from collections import abc
from collections.abc import Callable, Sequence

from sharpbeam.api.base import TextDecoder, in_order
from sharpbeam.decoding.results import Generation
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.options.keywords import DecodeKeywords, Unpack

Results = abc.Generator[tuple[int, Generation], None, None]


class Generator(TextDecoder[Generation]):
    """A language model that continues prompts. Its methods may be called from several threads at once.

    A prompt is the beginning of a sentence, and its continuation ends with the sentence. Keyword options are those of
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
        """Continue `prompts`; returns one generation for each, in their order. An empty prompt gives whole sentences.

        `progress` is called with the number of prompts that just finished.
        """
        return in_order(self.generate_iter(prompts, options=options, **keywords), len(prompts), progress)

    def generate_iter(
        self, prompts: Sequence[str], *, options: DecodeOptions | None = None, **keywords: Unpack[DecodeKeywords]
    ) -> Results:
        """Yield (index in `prompts`, generation) as they finish, which is not the order of `prompts`.

        Closing the iterator stops the work and its threads. Options and prompts are checked by the call itself.
        """
        return self._decode(prompts, self._options(options, keywords))
