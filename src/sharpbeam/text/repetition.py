"""Repetition: words of a text that follow one another again and again, as in "S.S.S.S." of a decoder in a loop."""

from __future__ import annotations

import re

# One ideograph, kana or Thai letter; a run of other letters; a number; or one other character.
ALONE = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
WORD = re.compile(rf"[{ALONE}]|[^\W\d_{ALONE}]+(?:['\u2019][^\W\d_]+)?|\d+(?:[.,]\d+)*|[^\w\s]|_")
LONGEST_PERIOD = 12  # words of a loop
_COPIES = re.compile(rf"(.{{1,{LONGEST_PERIOD}}}?)\1\1+", re.DOTALL)


def is_loop(source: str, translation: str) -> bool:
    """Whether words of the translation repeat one after another, more often than those of its source."""
    period, count = _repeats(translation)
    return count >= (4 if period == 1 else 3) and count > _repeats(source)[1] + 1


def _repeats(text: str) -> tuple[int, int]:
    """Words of the passage that is repeated most often, and the number of its copies: three or more, or one."""
    ids: dict[str, str] = {}  # a character for each word, so that a regular expression sees words
    words = "".join(ids.setdefault(word, chr(0x10000 + len(ids))) for word in WORD.findall(text.casefold()))
    copies = ((len(match[1]), len(match[0]) // len(match[1])) for match in _COPIES.finditer(words))
    return max(copies, key=lambda each: (each[1], -each[0]), default=(1, 1))
