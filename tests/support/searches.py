"""The hypotheses that a search finds: tokens in place of text."""

from __future__ import annotations

from sharpbeam import Translator
from sharpbeam.decoding.inputs import requests_of
from sharpbeam.decoding.lanes import Lane
from sharpbeam.decoding.loop import decode
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.scheduling.plan import Plan
from sharpbeam.types import Hypothesis


def hypotheses(translator: Translator, texts: list[str], options: DecodeOptions) -> dict[int, list[Hypothesis]]:
    """The hypotheses of each text, by its index, best first."""
    loaded = translator.loaded
    lane = Lane(loaded, options)
    plan = Plan(requests_of(loaded, texts, options), options.schedule, options.search.most_rows, 1)
    return dict(decode(loaded.model.open(), lane.usable, lane.search(), plan.schedule()))
