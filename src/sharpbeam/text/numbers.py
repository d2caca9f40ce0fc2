"""Numbers of a sentence that its translation lacks."""

from __future__ import annotations

import re
import unicodedata

_NUMBER = re.compile(r"(?<![\w.,])\d+(?:[.,:'\u2019\u00a0\u202f]\d+)*(?![\w])")
_JOINS = re.compile(r"(?<=\d)[.,:'\u2019\s](?=\d)")
_AFTERNOON = re.compile(r"(?::\d\d)?\s*[pP]\.?\s?[mM]\b")


def lost_numbers(source: str, answer: str) -> list[tuple[int, int]]:
    """Ranges of the numbers in `source` that are not in `answer` in any form: 1,000.5 may be 1.000,5 or 1000,5.

    20,000 may be 20 of a word for thousands, and 5 p.m. may be 17.
    """
    if not re.search(r"\d", source):
        return []
    answer = _ascii(answer)
    groups = set(re.findall(r"\d+", answer)) | set(re.findall(r"\d+", _JOINS.sub("", answer)))
    groups |= {re.sub(r"\D", "", match[0]) for match in re.finditer(r"\d+(?:[.,:]\d+)*", answer)}
    plain = _ascii(source)
    lost = []
    for number in _NUMBER.finditer(plain):
        digits = re.sub(r"\D", "", number[0])
        forms = {digits, re.sub(r"(?:000)+$", "", digits)}
        if _AFTERNOON.match(plain, number.start() + len(re.split(r"\D", number[0])[0])):
            forms.add(str(int(re.split(r"\D", number[0])[0]) % 12 + 12))
        if not forms & groups and not set(re.findall(r"\d+", number[0])) <= groups:
            lost.append(number.span())
    return lost


def _ascii(text: str) -> str:
    """The text with the digits of all scripts as ASCII; of the same length."""
    if text.isascii():
        return text
    return "".join(str(unicodedata.decimal(sign)) if sign.isdecimal() else sign for sign in text)
