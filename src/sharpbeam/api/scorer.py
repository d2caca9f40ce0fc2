"""Scorer: log probabilities of texts by a language model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import exp

import numpy as np

from sharpbeam.api.base import ModelUser
from sharpbeam.decoding.forced import force_all, sound
from sharpbeam.decoding.inputs import check_texts
from sharpbeam.decoding.results import Scored, scored
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.options.keywords import DecodeKeywords, Unpack
from sharpbeam.types import Ids, Request


class Scorer(ModelUser):
    """A language model that scores sentences. Its methods may be called from several threads at once."""

    task = "language"

    def score(
        self, texts: Sequence[str], *, options: DecodeOptions | None = None, **keywords: Unpack[DecodeKeywords]
    ) -> list[Scored]:
        """Score each of `texts` as a sentence by itself, including its end.

        Of the options of `Translator`, length_penalty, batch_tokens and output layer matter.
        """
        settings, loaded = self._options(options, keywords), self.loaded
        check_texts(texts, "text")
        tokens = {index: self._tokens(text) for index, text in enumerate(texts)}
        before = np.array([loaded.model.eos_id], np.int32)
        log_probs_of = force_all(loaded, [Request(index, before) for index in tokens], tokens, settings)
        penalty = settings.search.length_penalty
        return [scored(loaded.target, text, tokens[i], log_probs_of[i], penalty) for i, text in enumerate(texts)]

    def score_stream(
        self, texts: Iterable[str], *, options: DecodeOptions | None = None, **keywords: Unpack[DecodeKeywords]
    ) -> Iterator[Scored]:
        """Score each of `texts` given all texts before it: one long text, as in perplexity measurements.

        One thread reads token by token; an answer is yielded as soon as its text has been read. Of the options
        length_penalty and output layer matter.
        """
        if isinstance(texts, (str, bytes)):
            check_texts(texts, "text")  # raises
        return self._scores(texts, self._options(options, keywords))

    def _scores(self, texts: Iterable[str], settings: DecodeOptions) -> Iterator[Scored]:
        loaded = self.loaded
        model = loaded.model
        run, layer = model.open(), loaded.output_layer(settings).open()
        before = Request(0, np.array([model.eos_id], np.int32))
        request = np.zeros(1, np.int32)
        state = run.admit([before])
        layer.admit([before])
        token = np.array([model.bos_id], np.int32)  # no input: the end of a sentence was read by `admit`
        for text in texts:
            check_texts([text], "text")
            tokens = self._tokens(text)
            hidden = []
            for position in range(len(tokens)):
                row, state = run.step(request, state, token)
                run.retain(state)
                hidden.append(row)
                token = tokens[position : position + 1]
            log_probs = sound(layer.log_prob(np.concatenate(hidden), tokens, request.repeat(len(tokens))))
            yield scored(loaded.target, text, tokens, log_probs, settings.search.length_penalty)

    def _tokens(self, text: str) -> Ids:
        """The tokens of a text and the end of the sentence, [T]."""
        return np.array([*self.loaded.target.encode(text), self.loaded.model.eos_id], np.int32)


def perplexity(log_prob: float, words: int) -> float:
    """exp(-log_prob / words), for texts with `log_prob` in total and `words` tokens, ends of sentences included."""
    return exp(min(-log_prob / words, 700.0))  # beyond that a float ends
