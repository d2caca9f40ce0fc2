"""What users call to measure text: how likely a language model thinks it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import exp
from typing import TYPE_CHECKING

import numpy as np

from sharpbeam.api.inputs import check_texts
from sharpbeam.decoding.results import Answer
from sharpbeam.decoding.session import LoadedModel
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.types import Ids, Request

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from sharpbeam.options.keywords import DecodeKeywords

__all__ = ["Scorer", "perplexity"]


class Scorer(LoadedModel):
    """A language model that scores sentences. Its methods may be called from several threads at once."""

    task = "language"

    def score(
        self, texts: Sequence[str], *, options: DecodeOptions | None = None, **keywords: Unpack[DecodeKeywords]
    ) -> list[Answer]:
        """How likely each of `texts` is as a sentence of its own, its end included.

        Of the options of `Translator`, length_penalty, batch_tokens and output layer matter.
        """
        choices = (options or DecodeOptions()).changed(**keywords)
        check_texts(texts, "text")
        tokens = {index: self._tokens(text) for index, text in enumerate(texts)}
        before = np.array([self.parts.model.eos_id], np.int32)
        scored = self._force([Request(index, before) for index in tokens], tokens, choices)
        penalty = choices.search.length_penalty
        return [self._scored(text, tokens[i], scored[i], penalty) for i, text in enumerate(texts)]

    def score_stream(
        self, texts: Iterable[str], *, options: DecodeOptions | None = None, **keywords: Unpack[DecodeKeywords]
    ) -> Iterator[Answer]:
        """How likely each of `texts` is after all those before it: one long text, as language models are measured.

        One thread reads word by word; an answer comes as soon as its text has been read. Of the options
        length_penalty and output layer matter.
        """
        choices = (options or DecodeOptions()).changed(**keywords)
        model = self.parts.model
        run, layer = model.open(), self.output_layer(choices.output).open()
        before = Request(0, np.array([model.eos_id], np.int32))
        request = np.zeros(1, np.int32)
        state = run.admit([before])
        layer.admit([before])
        token = np.array([model.bos_id], np.int32)  # feeds nothing: the end of a sentence is already there
        for text in texts:
            tokens = self._tokens(text)
            hidden = []
            for position in range(len(tokens)):
                row, state = run.step(request, state, token)
                run.retain(state)
                hidden.append(row)
                token = tokens[position : position + 1]
            log_probs = layer.log_prob(np.concatenate(hidden), tokens, request.repeat(len(tokens)))
            yield self._scored(text, tokens, log_probs, choices.search.length_penalty)

    def _tokens(self, text: str) -> Ids:
        """The words of a text and the end of the sentence, [T]."""
        return np.array([*self.parts.target.encode(text), self.parts.model.eos_id], np.int32)


def perplexity(log_prob: float, words: int) -> float:
    """exp of the mean cost of a word: of texts with `log_prob` in all and `words` words, ends of sentences included."""
    return exp(min(-log_prob / words, 700.0))  # beyond that a float ends
