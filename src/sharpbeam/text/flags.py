"""Flags: faults of a translation, as far as the two texts show them.

loop: words repeat one after another, more often than in the source. copy: the words of the source are there again.
span: a protected span is missing, is there too often, or has no place. number: a number is missing. Others need more
than the texts: cut (the answer reached max_length, or its source max_input_length) and omission (words of the source
got no attention, docs/lab/guards.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from sharpbeam.text.numbers import lost_numbers
from sharpbeam.text.repetition import WORD, is_loop
from sharpbeam.text.spans import Span, blanked, kept

Flag = Literal["omission", "loop", "copy", "span", "number", "cut"]
LEAST_COPIED = 4  # words of a sentence that may be a copy
MOST_COPIED = 0.8  # share of them


def text_flags(source: str, answer: str, spans: Sequence[Span]) -> tuple[Flag, ...]:
    """The flags of an answer to a source with protected spans."""
    flags: list[Flag] = ["loop"] if is_loop(source, answer) else []
    own, other = source, answer
    for span in spans:
        own, other = own.replace(span.text, " ", 1), other.replace(span.text, " ", 1)
    if _is_copy(own, other):
        flags.append("copy")
    if not kept(source, answer, spans):
        flags.append("span")
    if lost_numbers(blanked(source, spans), answer):
        flags.append("number")
    return tuple(flags)


def _is_copy(source: str, answer: str) -> bool:
    """Whether most words of the answer are those of the source at about their place."""
    ours, theirs = ([word for word in WORD.findall(text.casefold()) if word[0].isalpha()] for text in (source, answer))
    if min(len(ours), len(theirs)) < LEAST_COPIED:
        return False
    near = sum(word in ours[max(0, at - 2) : at + 3] for at, word in enumerate(theirs))
    return near >= MOST_COPIED * max(len(ours), len(theirs))
