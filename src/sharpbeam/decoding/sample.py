"""Sample sentences for a model: what is fitted, measured and exported with where the user gives none."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from sharpbeam.decoding.inputs import requests_of
from sharpbeam.decoding.loading import LoadedModel
from sharpbeam.decoding.loop import beam_search
from sharpbeam.options.decode import DecodeOptions, LanguageOptions, SearchOptions
from sharpbeam.output_layers.suppressed import without
from sharpbeam.text.sample import FEW, languages_of, sample


def sample_of(loaded: LoadedModel, named: LanguageOptions | None = None) -> list[str]:
    """Sample sentences in the source language that is `named`, or that the model names, or its vocabulary is made for.

    A vocabulary that is also the target's is made for both: the source is what the model copies the least of. Raises
    OptionError where the model needs a language that is not named.
    """
    options = replace(loaded.options, languages=named or loaded.options.languages)
    if language := loaded.language_tags.of_text(options.languages).languages.source:
        return sample(language)
    languages = languages_of(loaded.source)
    shared = loaded.source.serialized == loaded.target.serialized and loaded.task == "translation"
    if shared and len(languages) > 1:
        return sample(min(languages, key=partial(_copied, loaded, options)))
    return sample(languages[0])


def _copied(loaded: LoadedModel, options: DecodeOptions, language: str) -> float:
    """The share of the tokens of a language's greedy translations that are in their sources."""
    total, copied = 0, 0
    requests = requests_of(loaded, sample(language)[:FEW], options)
    greedy = SearchOptions(beam_size=1, max_length=options.search.max_length)  # the model may have few positions
    layer, tokens = without(loaded.exact, loaded.suppressed), options.schedule.batch_tokens
    for index, hypotheses in beam_search(loaded.model, layer, requests, greedy, tokens):
        total += len(hypotheses[0].tokens)
        copied += int(np.isin(hypotheses[0].tokens, requests[index].source).sum())
    return copied / max(1, total)
