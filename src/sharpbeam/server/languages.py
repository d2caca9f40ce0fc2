"""Languages: their English names, and which of them a text may be in."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sharpbeam.text.languages import NAMES, UNLIKELY, language_shares
from sharpbeam.text.sentences import short_code

SURE = 95.0  # percent; words such as "Hand", which two languages have, are less


def name_of(code: str) -> str:
    """The English name of a language; its code where we know no name."""
    return NAMES.get(code) or NAMES.get(code.partition("-")[0].partition("_")[0], code)


@dataclass(frozen=True)
class Detection:
    """A language, and how sure it is."""

    language: str
    confidence: float  # percent; 0: unknown, as of text that is hardly in any of the languages


def detect(text: str, languages: Collection[str], target: str) -> Detection:
    """The likeliest of `languages`, or `target` where the text is surely in it, and needs no translation."""
    best = detections(text, {*languages, target})[0]
    return best if best.language in languages or best.confidence >= SURE else detections(text, languages)[0]


def detections(text: str, languages: Collection[str]) -> list[Detection]:
    """All of `languages` that a text may be in, the likeliest first; at least one."""
    shares = language_shares(text)
    rates = {code: shares.get(short_code(code), 0.0) for code in languages}
    total = sum(rates.values())
    ranked = sorted(rates.items(), key=lambda item: (-item[1], item[0]))
    scale = 100 / total if total >= UNLIKELY else 0.0
    likely = [Detection(code, round(scale * share, 1)) for code, share in ranked if share > 0]
    return likely or [Detection(ranked[0][0], 0.0)]
