# ruff: noqa: RUF001 (signs of many scripts)
"""Character references of HTML in plain text: &eacute; and &quot; are a letter and a sign of the words around them.

Others, such as &nbsp; and &lt;, are protected spans.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import unescape

REFERENCE = r"&(?:[a-zA-Z]\w{1,30}|#\d{1,7}|#x[\da-fA-F]{1,6});"
_SIGNS = "'\"‘’‚“”„«»‹›–—…!?¡¿.,:;-"


def sign_of(match: re.Match[str]) -> str:
    """The letter or sign that a reference is at a word; empty for one that is protected, such as &nbsp; or a lone one.

    The name of a letter may be a word of one letter, &agrave;.
    """
    sign, text = unescape(match[0]), match.string
    sides = text[match.start() - 1 : match.start()] + text[match.end() : match.end() + 1]
    if len(sign) == 1 and sign.isalpha():
        return sign if match[0][1] != "#" or re.search(r"[\w&;]", sides) else ""
    return sign if len(sign) == 1 and sign in _SIGNS and sides.strip() else ""


def is_space(reference: str) -> bool:
    """Whether a reference stands for a space that does not break, between words that it keeps together."""
    return unescape(reference) == "\u00a0"


def find_references(text: str) -> Iterator[tuple[int, int, str]]:
    """Range and sign of each reference to a letter or sign."""
    for match in re.finditer(REFERENCE, text):
        if sign := sign_of(match):
            yield *match.span(), sign


def to_references(text: str, forms: dict[str, str], fixed: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Range and reference of each sign in a text that has a form, but for those in texts that are `fixed`."""
    kept = sorted(map(re.escape, fixed), key=len, reverse=True)
    for match in re.finditer("|".join([*kept, f"([{re.escape(''.join(forms))}])"]), text):
        if match[1]:
            yield *match.span(), forms[match[1]]
