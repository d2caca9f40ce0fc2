"""English names of languages by code (ISO 639-1 and -3)."""

from __future__ import annotations

NAMES = dict(
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
