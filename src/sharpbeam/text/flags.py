"""Flags: faults of a translation, as far as the two texts show them.

loop: words repeat one after another, more often than in the source. copy: the words of the source are there again, or
LONGEST_RUN of them in a row. language: the text is in another language. span: a protected span is missing, is there
too often, or has no place. number: a number is missing. cut: it is empty, or far shorter than the source. Others need
more than the texts: garbage (its tokens are most improbable), cut at max_length or max_input_length, and omission
(words of the source got no attention, docs/lab/guards.md). No sound text of newstest or Tatoeba is near a threshold.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal

from sharpbeam.text.languages import is_other_language
from sharpbeam.text.spans import ALONE, Span, blanked, kept

Flag = Literal["omission", "loop", "copy", "language", "garbage", "span", "number", "cut"]
LEAST_COPIED = 4  # words of a sentence that may be a copy
MOST_COPIED = 0.8  # share of them
LONGEST_RUN = 4  # words in lower case, so no name, that an answer may not have one after another as the source
LEAST_LENGTH = 0.45  # of an answer, as a share of its source
SHORT = 20  # letters of a source that may have any answer
_WIDE = "\u1100"  # from here on a letter says as much as some three Latin ones
# One ideograph, kana or Thai letter; a run of other letters; a number; or one other character.
WORD = re.compile(rf"[{ALONE}]|[^\W\d_{ALONE}]+(?:['\u2019][^\W\d_]+)?|\d+(?:[.,]\d+)*|[^\w\s]|_")
LONGEST_PERIOD = 12  # words of a loop
_COPIES = re.compile(rf"(.{{1,{LONGEST_PERIOD}}}?)\1\1+", re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.,])\d+(?:[.,:'\u2019\u00a0\u202f]\d+)*(?![\w])")
_TWICE = re.compile(r"\d+(?:\.\d+){2,}|\d+(?:,\d+){2,}")  # 1.250.75
_THOUSANDS = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
_JOINS = re.compile(r"(?<=\d)[.,:'\u2019\s](?=\d)")
_AFTERNOON = re.compile(r"(?::\d\d)?\s*[pP]\.?\s?[mM]\b")


def text_flags(source: str, answer: str, spans: Sequence[Span], target: str = "") -> tuple[Flag, ...]:
    """The flags of an answer to a source with protected spans, into the language `target` if that is known."""
    own, other = source, answer
    for span in (span for span in spans if not span.foreign):  # which are a copy
        own = own.replace(source[span.start : span.end], " ", 1)  # not its text: that of an ICU message is translated
        other = other.replace(span.text, " ", 1)
    flags: list[Flag] = ["loop"] if is_loop(source, answer) else []
    if _is_copy(own, other):
        flags.append("copy")
    elif is_other_language(other, target):
        flags.append("language")
    if not kept(source, answer, spans):
        flags.append("span")
    if lost_numbers(blanked(source, spans), answer):
        flags.append("number")
    if _is_short(own, other):
        flags.append("cut")
    return tuple(flags)


def _is_copy(source: str, answer: str) -> bool:
    """Whether most words of the answer are those of the source at about their place, or many in a row are."""
    ours, theirs = ([word for word in WORD.findall(text) if word[0].isalpha()] for text in (source, answer))
    same = {word.casefold() for word in ours}
    copied = [word for word in theirs if word.casefold() in same]
    if len(ours) < LEAST_COPIED or len(copied) < LEAST_COPIED:
        return False  # of most answers
    if all(map(str.istitle, copied)) and any(map(str.islower, ours)):
        return False  # of names
    if source.isupper():
        ours, theirs = ([word.lower() for word in words] for words in (ours, theirs))
    if _longest_run(ours, theirs) >= LONGEST_RUN:
        return True
    ours, theirs = ([word.casefold() for word in words] for words in (ours, theirs))
    near = sum(word in ours[max(0, at - 2) : at + 3] for at, word in enumerate(theirs))
    return near >= MOST_COPIED * max(len(ours), len(theirs))


def _longest_run(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """Words in lower case of the longest run of words that both have."""
    places: dict[str, list[int]] = {}
    for at, word in enumerate(ours):
        places.setdefault(word, []).append(at)
    runs: dict[int, int] = {}  # by the place of their last word
    longest = 0
    for word in theirs:
        low = len(word) > 1 and word.islower()
        runs = {at: runs.get(at - 1, 0) + low for at in places.get(word, ())}
        longest = max(longest, *runs.values()) if runs else longest
    return longest


def _is_short(source: str, answer: str) -> bool:
    """Whether the answer says nothing, or far less than the source."""
    if len(answer) >= LEAST_LENGTH * len(source):
        return False
    if not any(map(str.isalnum, answer)):
        return any(map(str.isalpha, source))
    length = _length(source)
    return length >= SHORT and _length(answer) < LEAST_LENGTH * length


def _length(text: str) -> int:
    return sum(3 if letter >= _WIDE else 1 for letter in text if letter.isalnum())


def is_loop(source: str, translation: str) -> bool:
    """Whether words of the translation repeat one after another, more often than those of its source."""
    period, count = _repeats(translation)
    return count >= (4 if period == 1 else 3) and count > _repeats(source)[1] + 1


def _repeats(text: str) -> tuple[int, int]:
    """Words of the passage that is repeated most often, and the number of its copies: three or more, or one."""
    every = WORD.findall(text.casefold())
    ids = dict(zip(dict.fromkeys(every), map(chr, range(0x10000, 0x110000)), strict=False))
    if len(every) < len(ids) + 2:  # no word is there three times
        return 1, 1
    words = "".join(map(ids.__getitem__, every))  # a character for each, so that a regular expression sees words
    copies = ((len(match[1]), len(match[0]) // len(match[1])) for match in _COPIES.finditer(words))
    return max(copies, key=lambda each: (each[1], -each[0]), default=(1, 1))


def lost_numbers(source: str, answer: str) -> list[tuple[int, int]]:
    """Ranges of the numbers in `source` that are not in `answer` in any form: 1,000.5 may be 1.000,5 or 1000,5.

    20,000 may be 20 of a word for thousands, and 5 p.m. may be 17.
    """
    if not re.search(r"\d", source):
        return []
    answer = _ascii(answer)
    groups = set(re.findall(r"\d+", answer)) | set(re.findall(r"\d+", _JOINS.sub("", answer)))
    written = {match[0] for match in re.finditer(r"\d+(?:[.,:]\d+)*", answer)}
    groups |= (whole := {re.sub(r"\D", "", one) for one in written})
    twice = {re.sub(r"\D", "", one) for one in written if _TWICE.fullmatch(one)}
    plain = _ascii(source)
    lost = []
    for number in _NUMBER.finditer(plain):
        digits = re.sub(r"\D", "", number[0])
        forms = {digits} | ({re.sub(r"(?:000)+$", "", digits)} & whole)
        if _AFTERNOON.match(plain, number.start() + len(re.split(r"\D", number[0])[0])):
            forms.add(str(int(re.split(r"\D", number[0])[0]) % 12 + 12))
        if ({",", "."} <= {*number[0]} and digits in twice) or (  # 1,250.75
            not forms & groups and (_THOUSANDS.fullmatch(number[0]) or not {*re.findall(r"\d+", number[0])} <= groups)
        ):
            lost.append(number.span())
    return lost


def _ascii(text: str) -> str:
    """The text with the digits of all scripts as ASCII; of the same length."""
    if text.isascii():
        return text
    return "".join(str(unicodedata.decimal(sign)) if sign.isdecimal() else sign for sign in text)
