"""Languages: their English names, and which of them a text may be in."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sharpbeam.text.languages import UNLIKELY, language_shares
from sharpbeam.text.sentences import short_code

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


def name_of(code: str) -> str:
    """The English name of a language; its code where we know no name."""
    return NAMES.get(code) or NAMES.get(code.partition("-")[0].partition("_")[0], code)


@dataclass(frozen=True)
class Detection:
    """A language, and how sure it is."""

    language: str
    confidence: float  # percent; 0: unknown, as of text that is hardly in any of the languages


def detect(text: str, languages: Collection[str]) -> Detection:
    """The likeliest of `languages`."""
    return detections(text, languages)[0]


def detections(text: str, languages: Collection[str]) -> list[Detection]:
    """All of `languages` that a text may be in, the likeliest first; at least one."""
    shares = language_shares(text)
    rates = {code: shares.get(short_code(code), 0.0) for code in languages}
    total = sum(rates.values())
    ranked = sorted(rates.items(), key=lambda item: (-item[1], item[0]))
    scale = 100 / total if total >= UNLIKELY else 0.0
    likely = [Detection(code, round(scale * share, 1)) for code, share in ranked if share > 0]
    return likely or [Detection(ranked[0][0], 0.0)]
