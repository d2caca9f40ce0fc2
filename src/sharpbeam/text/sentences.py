"""Sentence splitting and the white space between sentences."""

from __future__ import annotations

import re
from functools import partial

# ISO 639-3 codes, as NLLB has them, of languages for which the splitter has rules under the shorter code.
_CODES = (
    "eng:en deu:de fra:fr spa:es por:pt ita:it nld:nl pol:pl ces:cs slk:sk slv:sl hrv:hr srp:sr bos:bs bul:bg mkd:mk "
    "rus:ru ukr:uk bel:be lit:lt lvs:lv est:et fin:fi hun:hu ron:ro ell:el tur:tr swe:sv dan:da nob:no nno:nn isl:is "
    "cat:ca glg:gl eus:eu gle:ga cym:cy mlt:mt arb:ar heb:he pes:fa urd:ur hin:hi ben:bn mar:mr guj:gu pan:pa tam:ta "
    "tel:te kan:kn mal:ml sin:si npi:ne mya:my khm:km lao:lo tha:th vie:vi ind:id zsm:ms tgl:tl jav:jv zho:zh jpn:ja "
    "kor:ko kat:ka hye:hy azj:az kaz:kk uzn:uz khk:mn amh:am swh:sw som:so afr:af "
    "cze:cs ger:de gre:el per:fa fas:fa ice:is lav:lv chi:zh baq:eu ara:ar dut:nl fre:fr nor:no rum:ro slo:sk swa:sw"
)
SHORT_CODES = dict(pair.split(":") for pair in _CODES.split())

_UNQUOTED = str.maketrans(dict.fromkeys('"“”„«»', " "))
# Words before a name or a number in any language, whatever the rules of the text's own are.
_TITLE = re.compile(r"(?<!\w)(?:Ste?|Mt|Mrs?|Ms|Dra?|Sra?|Srta|Profa?|Gen|Col|Capt|Lt|Sgt|Rev|Gov|séc|núm|pág)\.\Z")
_NUMBERED = re.compile(
    r"(?<!\w)(?:[Aa]p(?:t|to|prox)?|[Rr]m|[Vv]ol|[Cc]h|Par|Lot|[Ee]d|[Tt]el|est|[nN]º?|[Cc]ap|[Aa]v)\.\Z"
)
_NOON = re.compile(r"\b[ap]\.\s?m\.\Z", re.I)
_ZONE = re.compile(r"(?:[ECMP][SD]?T|GMT|UTC|BST|CES?T|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day)\b")
_BEGINS = re.compile(r"(?:The|This|That|There|He|She|It|They|We|You|I|But|And|In|On|At)\b")
WINDOW = 4000  # characters that the splitter sees at once: its time is quadratic


def short_code(language: str) -> str:
    """The language of a code such as pt-BR or por_Latn, with two letters where it has them: pt."""
    code = language.replace("_", "-").split("-")[0].lower()
    return SHORT_CODES.get(code, code)


def _goes_on(sentence: str, following: str) -> bool:
    """Whether the full stop that ends a text is that of an abbreviation: "St. Martin", "Apt. 4", "7 p.m. ET"."""
    title = _TITLE.search(sentence) is not None and not _BEGINS.match(following)
    title = title or (following[:1].isdigit() and _NUMBERED.search(sentence) is not None)
    return following != "" and (title or (_NOON.search(sentence) is not None and _ZONE.match(following) is not None))


def split_sentences(text: str, language: str = "") -> list[tuple[int, int]]:
    """Ranges (start, end) of the sentences of `text`, without the white space around them.

    `language` is a code such as de, pt-BR or por_Latn; other codes, and none, have the rules of English. Nothing but
    white space lies between the ranges.
    """
    from sentencex import segment  # takes a while

    split = partial(segment, short_code(language) or "en")
    found, at, begin = list[tuple[int, int]](), 0, 0
    while at < len(text):
        window = text[at : at + WINDOW]
        pieces = list(split(window.translate(_UNQUOTED)))  # which would leave what is in quotes as it is
        if sum(map(len, pieces)) != len(window):  # the splitter changed the text, so its lengths mean nothing
            pieces = [window]
        if at + len(window) < len(text):  # the last one may continue
            pieces = pieces[:-1] or [window[: window.rfind(" ") + 1] or window]
        for piece in pieces:
            at = end = at + len(piece)
            while begin + 1 < end < len(text) and ord(text[end - 1]) in _UNQUOTED and text[end - 2].isspace():
                end -= 1  # the next one begins with a quote
            inside = text[begin:end].strip()
            quoted = inside and text[end : end + 1].islower() and ord(inside[-1]) in _UNQUOTED  # "Why?" she asked.
            if inside and not quoted and not (inside[-1] == "." and _goes_on(inside, text[end : end + 64].lstrip())):
                start = end - len(text[begin:end].lstrip())
                found.append((start, start + len(inside)))
                begin = end
    return found
