# ruff: noqa: RUF001 (signs of many scripts)
"""Lines as people write them: each is cut into sentences, which are decoded one by one, and put together again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from sharpbeam.contract.answers import Change, Piece, changed_text, joined, with_texts
from sharpbeam.contract.guards import guarded_steps, inside
from sharpbeam.contract.sentences import Contract, spans_of
from sharpbeam.contract.steps import Job, Steps, together
from sharpbeam.decoding.results import EMPTY, Translation
from sharpbeam.text.case import LONG_WORD, SMALL_WORDS
from sharpbeam.text.pieces import tag_code
from sharpbeam.text.references import find_references
from sharpbeam.text.sentences import split_sentences
from sharpbeam.text.spans import BREAK, IN_WORDS, Span, blanked, covered, message_arms
from sharpbeam.text.spelling import Spelling

MOST_LETTERS = 500  # of a sentence; a longer one is cut at a comma or a space
_CUTS = ("; ", "\uff1b", "\u3002", ", ", "\uff0c", "\u3001")  # a sentence is cut after the last of the first kind
_LINE = re.compile(r"[^\n\r\t\v\f\x1c-\x1e\x85\u2028\u2029]+")  # or a cell
_CELL = re.compile(r"(?:[^ ]| {1,2}(?! ))+")  # of columns that are three spaces apart or more
_NO_CELLS = re.compile(r"[.!?:;,\u2026\u3002]\s*\Z|\S {3,}[a-z\u00df-\u00f6\u00f8-\u00ff]")  # but a sentence
# A bullet or a number before a sentence, or a letter in brackets.
_BULLET = re.compile(r"\s*(?:(?:[-*+•·‣▪–—>#]+|\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,5})[.)])\s+)+")
# One sentence of words and usual signs; what else there is has to be looked at.
_PLAIN = re.compile(r"[\"“„«'(¿¡]?[^\W_][\w ,'’\"“”„«»;()—–-]*[.!?…]?[\"”»'’)]?")
Range = tuple[int, int]
_TAG = re.compile(r"\s*(>>[^\s<>]+<<|<2[^\s<>]+>)")
_NUMBER_SIGN = re.compile("#")  # the number in a form of an ICU message
_LONG_SMALL = {word for words in SMALL_WORDS.values() for word in words.split() if len(word) >= LONG_WORD}
# A word that a title would begin with a capital letter.
_LOWER = re.compile(rf"(?<![\w'’])(?!(?:{'|'.join(sorted(_LONG_SMALL))})\b)[a-zß-öø-ÿа-яёα-ωά-ώ]{{4}}")
# Digits, capitals inside of words, options of programs; apart, each is found by its first letter, which is fast.
_MARKED = (*map(re.compile, (r"[\d_]", r"[A-Z](?<=[a-zA-Z][A-Z])", r"-(?<=[\s-]-)[\w-]", r";-?[()]")), IN_WORDS)


def is_plain(text: str, spelling: Spelling) -> bool:
    """Whether a line is empty, or one sentence in which there is nothing to protect, as most lines are."""
    if len(text) > MOST_LETTERS or not text.strip():
        return not text.strip()
    usual = _PLAIN.fullmatch(text) is not None and _LOWER.search(text) is not None
    usual = usual and len(_cells(text, 0, len(text))) == 1
    return usual and not any(mark.search(text) for mark in _MARKED) and (text.isascii() or not spelling.lacks(text))


def line_steps(text: str, contract: Contract) -> Steps[Translation]:
    """The translation of a line; a text of several lines has as many."""
    tag = _TAG.match(text) if contract.tags and "\n" not in text.strip() else None
    if tag and (code := tag_code(tag[1])) in contract.tags:
        own = replace(contract, tags=(), target=code, changes={**contract.changes, "target_language": code})
        return replace((yield from line_steps(text[tag.end() :], own)), source=text)
    spans = spans_of(text, contract.pattern, contract)
    ranges = list(sentence_ranges(text, spans, contract.language))
    spans = yield from together([_message_steps(span, contract) for span in spans])
    if len(ranges) == 1 and not spans:  # as plain lines, which are what `raw` makes of them
        contract = replace(contract, again=False)
    steps = [guarded_steps(text[start:end], inside(spans, start, end), contract) for start, end in ranges]
    if not ranges:
        empty = replace(EMPTY, text=with_texts(text, spans, 0, len(text)), attention=() if contract.attention else None)
        return Translation(text, (empty,), sentence_flags=())
    sentences = zip(ranges, (yield from together(steps)), strict=True)
    pieces = [Piece(at + start, at + end, part) for (at, _), one in sentences for (start, end), part in one.parts]
    return joined(text, pieces, contract.penalty, spans)


def _message_steps(span: Span, contract: Contract) -> Steps[Span]:
    """The span; that of an ICU message with the texts of its plural forms translated."""
    arms = message_arms(span.text) if contract.messages else []
    if not arms:
        return span
    inside = replace(contract, pattern=_NUMBER_SIGN, messages=contract.messages - 1)
    answers = yield from together([line_steps(span.text[start:end], inside) for start, end in arms])
    changes = [Change(*arm, answer.text) for arm, answer in zip(arms, answers, strict=True)]
    return replace(span, text=changed_text(span.text, changes))


def one_step(text: str) -> Steps[Translation]:
    """The translation of a text as it stands."""
    (answer,) = yield [Job(text)]
    return answer


def sentence_ranges(text: str, spans: list[Span], language: str, most: int = MOST_LETTERS) -> Iterator[tuple[int, int]]:
    """Ranges of what is decoded: sentences with a letter that is in no span, without bullets and numbers before them.

    Spans at both ends that are no words, such as emoji, and tags that close at the start are not in them either.
    """
    for first, last, sign in find_references(text) if "&" in text else ():
        text = text[:first] + sign * (last - first) + text[last:]
    hidden = covered(text, spans)
    for span in (span for span in spans if span.text[0] in "<&\\" and BREAK.search(span.text)):
        hidden = hidden[: span.start] + "\n" * (span.end - span.start) + hidden[span.end :]
    ends = [(span.start, span.end) for span in spans if not any(map(str.isalnum, span.text))]
    closing = [(span.start, span.end) for span in spans if span.text.startswith(("</", "&lt;/"))]
    starts = sorted([*ends, *closing])
    blank = blanked(text, spans)
    cells = (cell for line in _LINE.finditer(hidden) for cell in _cells(hidden, *line.span()))
    for begin, stop in cells:
        bullet = _BULLET.match(hidden, begin, stop)
        at = bullet.end() if bullet else begin
        for first, last in split_sentences(hidden[at:stop], language):
            for start, end in cut_sentence(hidden, at + first, at + last, most):
                part = _peeled(hidden, start, end, ends, starts)
                if any(map(str.isalpha, blank[slice(*part)])):
                    yield part


def _cells(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The cells of a line in columns; of any other the line."""
    if "   " not in text[start:end].strip() or _NO_CELLS.search(text, start, end):
        return [(start, end)]
    return [cell.span() for cell in _CELL.finditer(text, start, end)]


def _peeled(text: str, start: int, end: int, ends: list[Range], starts: list[Range]) -> Range:
    """A range without the spans in `starts` and `ends`, and the spaces at both ends of it."""
    for first, last in starts:
        if start == first and last <= end:
            start = last + len(text[last:end]) - len(text[last:end].lstrip())
    for first, last in reversed(ends):
        if end == last and start <= first:
            end = start + len(text[start:first].rstrip())
    return start, end


def cut_sentence(text: str, start: int, end: int, most: int = MOST_LETTERS) -> Iterator[tuple[int, int]]:
    """A sentence in ranges of at most so many characters, cut after a sign or at a space."""
    while end - start > most:
        window = text[start : start + most]
        places = [window.rfind(sign) + 1 for sign in _CUTS]
        at = next((place for place in places if place > most // 2), window.rfind(" ") + 1 or most)
        yield start, start + len(text[start : start + at].rstrip())
        start += at
        while start < end and text[start].isspace():
            start += 1
    if start < end:
        yield start, end
