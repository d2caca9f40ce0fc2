"""Generator: prompts in, continuations out, in the same order."""

from __future__ import annotations

from collections import abc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from sharpbeam.api.base import ModelUser, in_order
from sharpbeam.decoding.lanes import Setup
from sharpbeam.decoding.loading import ModelName
from sharpbeam.decoding.results import Generation
from sharpbeam.decoding.session import Session, decode_texts
from sharpbeam.decoding.trace import Trace, trace
from sharpbeam.options.decode import DecodeOptions, MachineOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from sharpbeam.options.keywords import DecodeKeywords, ModelKeywords

__all__ = ["Generation", "Generator"]

Results = abc.Generator[tuple[int, Generation], None, None]


class Generator(ModelUser):
    """A language model that continues prompts. Its methods may be called from several threads at once.

    A prompt is the beginning of a sentence, and its continuation ends with the sentence. Keyword options are those of
    `Translator`; an unknown name or a wrong value raises OptionError.
    """

    def __init__(
        self, model: ModelName, *, machine: MachineOptions | None = None, **options: Unpack[ModelKeywords]
    ) -> None:
        """Load `model`; as `Translator`."""
        super().__init__(model, "language", machine, options)

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
        return cast(Results, decode_texts(self.loaded, prompts, self._options(options, keywords)))

    def session(
        self, *, options: DecodeOptions | None = None, **keywords: Unpack[DecodeKeywords]
    ) -> Session[Generation]:
        """Open a session, which takes prompts while others are decoded: `Translator.session`."""
        return cast("Session[Generation]", self._session(options, keywords))

    def trace(self, prompt: str, *, options: DecodeOptions | None = None, **keywords: Unpack[DecodeKeywords]) -> Trace:
        """Record every step of the beam search of one prompt, as `Translator.trace`."""
        return trace(self.loaded, prompt, None, self._options(options, keywords))

    def setup(self, prompts: Sequence[str], options: DecodeOptions) -> Setup:
        """Prepare one beam search of `prompts`, to be run by the caller: `Translator.setup`."""
        return self._setup(prompts, options)
