"""Translator: texts in, translations out, in the order asked."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from sharpbeam.api.base import ModelUser, in_order
from sharpbeam.decoding.forced import force_all
from sharpbeam.decoding.inputs import Prefixes, check_texts, encode_texts
from sharpbeam.decoding.lanes import Setup
from sharpbeam.decoding.loading import ModelName
from sharpbeam.decoding.results import Answer, Translation, scored
from sharpbeam.decoding.session import Session, decode_texts
from sharpbeam.decoding.trace import Trace, trace
from sharpbeam.errors import InputError
from sharpbeam.options.decode import DecodeOptions, MachineOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from sharpbeam.options.keywords import DecodeKeywords, ModelKeywords

__all__ = ["Answer", "Translation", "Translator"]

Results = Generator[tuple[int, Translation], None, None]


class Translator(ModelUser):
    """A translation model, ready to use. Its methods may be called from several threads at once.

    The keyword options of its methods are the fields of SearchOptions, ScheduleOptions, OutputLayerOptions and
    LanguageOptions (beam_size, num_hypotheses, length_penalty, early_stopping, max_length, schedule and others);
    an unknown name or a wrong value raises OptionError. `work` counts what all searches so far took.

    A multilingual model is told by `source_language` and `target_language` what it should do.

    `target_prefix` gives for each text what its translations have to begin with, or None; a str stands for all of them.
    As in CTranslate2 the tokens of the prefix belong to the answer and count for lengths and their penalty, but add
    nothing to its score (their token scores are 0).
    """

    def __init__(
        self, model: ModelName, *, machine: MachineOptions | None = None, **options: Unpack[ModelKeywords]
    ) -> None:
        """Load `model`: a folder, the name of a bundled model, or an ensemble (a list, or a str with "+" between them).

        Options are those of the machine (threads=2, compute_type="int8"; or as a whole, `machine`), and defaults for
        the options of all calls (output_layer="scan", beam_size=4). Raises ModelError where a folder is not a sound
        translation model, OptionError for an unknown name or a wrong value.
        """
        super().__init__(model, "translation", machine, options)

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
        return in_order(
            self.translate_iter(texts, target_prefix=target_prefix, options=options, **keywords), len(texts), progress
        )

    def translate_iter(
        self,
        texts: Sequence[str],
        *,
        target_prefix: Prefixes = None,
        options: DecodeOptions | None = None,
        **keywords: Unpack[DecodeKeywords],
    ) -> Results:
        """Yield (index in `texts`, translation) as they are done, which is not the order asked.

        Closing the iterator stops the work and its threads. Options and texts are checked at once, not at the first
        result.
        """
        chosen = self._options(options, keywords)
        return cast(Results, decode_texts(self.loaded, texts, chosen, target_prefix))

    def session(
        self, *, options: DecodeOptions | None = None, **keywords: Unpack[DecodeKeywords]
    ) -> Session[Translation]:
        """A session, which takes texts while others are decoded; `options` are those of texts without their own.

        Without a `schedule` a text enters as soon as it fits.
        """
        return cast("Session[Translation]", self._session(options, keywords))

    def trace(
        self,
        text: str,
        *,
        target_prefix: str | None = None,
        options: DecodeOptions | None = None,
        **keywords: Unpack[DecodeKeywords],
    ) -> Trace:
        """Every step of the beam search of one text: rows, candidates and what became of them, and why it stopped."""
        return trace(self.loaded, text, target_prefix, self._options(options, keywords))

    def setup(self, texts: Sequence[str], options: DecodeOptions) -> Setup:
        """What one beam search of `texts` takes, for those who run it themselves; empty texts are left out.

        Raises OptionError, ModelError or InputError where `translate` would, for what is no beam search alone
        (samples, alternatives, attention, a coverage penalty), and where no text is left.
        """
        return self._setup(texts, options)

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
        chosen, loaded = self._options(options, keywords), self.loaded
        check_texts(targets, "target")
        inputs = encode_texts(loaded, sources, None, chosen)
        if len(sources) != len(targets):
            raise InputError(f"{len(sources)} sources but {len(targets)} targets; give one target for each source.")
        requests = [given.request for given in inputs if given.request is not None]
        if len(requests) < len(sources):
            empty = next(index for index, given in enumerate(inputs) if given.request is None)
            raise InputError(f"source {empty} is empty, so its target cannot be scored; leave the pair out.")
        eos, encode = loaded.model.eos_id, loaded.target.encode
        tag = loaded.language_tags.direction(chosen.languages).prefix
        tokens = {i: np.array([*tag, *encode(text), eos], np.int32) for i, text in enumerate(targets)}
        most = loaded.max_positions
        for i, ids in tokens.items():
            if 0 < most < len(ids):
                raise InputError(f"target {i} has {len(ids)} tokens, eos counted; the model has positions for {most}.")
        found = force_all(loaded, requests, tokens, chosen)
        for log_probs in found.values():
            log_probs[: len(tag)] = 0.0  # it is forced, and adds nothing, when a text is translated too
        penalty = chosen.search.length_penalty
        return [scored(loaded.target, text, tokens[i], found[i], penalty) for i, text in enumerate(targets)]
