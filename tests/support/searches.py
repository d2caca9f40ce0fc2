"""The hypotheses that a search finds: tokens in place of text."""

from __future__ import annotations

from sharpbeam import Translator
from sharpbeam.decoding.loop import decode
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.scheduling.plan import Plan
from sharpbeam.types import Hypothesis


def hypotheses(translator: Translator, texts: list[str], options: DecodeOptions) -> dict[int, list[Hypothesis]]:
    """The hypotheses of each text, by its index, best first."""
    setup, loaded = translator.setup(texts, options), translator.loaded
    plan = Plan(setup.requests, options.schedule, options.search.most_rows, 1, loaded.footprint)
    return dict(decode(loaded.model.open(), setup.layer, setup.make_search(), plan.schedule()))
