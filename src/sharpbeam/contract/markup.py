"""Markup in sentences, which is decoded without it: tags in pairs, and character references of letters and signs.

What is between two tags of a pair would not be translated next to stand-ins. They are taken off and put around what it
became, as those of documents (transfer.py). The answer has references where it has the letters and signs that the
source has as such.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from sharpbeam.contract.answers import Change, Piece, changed_answer, changed_source, changed_text
from sharpbeam.contract.steps import Steps
from sharpbeam.contract.transfer import transfer
from sharpbeam.decoding.results import Answer, Translation
from sharpbeam.text.references import find_references, is_space, to_references
from sharpbeam.text.segment import Segment, Tag
from sharpbeam.text.spans import BREAK, Span, blanked, covered, overlaps

_TAG = re.compile(
    r"(?:<|&lt;)(?P<closes>/)?(?P<name>[a-zA-Z][\w:.-]*|\d+)(?:(?!&[lg]t;)[^<>])*?(?P<empty>/)?(?:>|&gt;)"
)
_TAGS = re.compile(rf"(?:{re.sub('P<[a-z]+>', ':', _TAG.pattern)})+")
_CODE = ("`", "{", "<!")  # spans that begin so have no tags
# Tags of forums, and signs around emphasis in Markdown and chats.
_FORUM = re.compile(r"\[(?P<closes>/)?(?P<name>b|i|u|s|url|quote|color|size)(?:=[^\]\s]{0,500})?\]", re.I)
_EMPHASIS = re.compile(r"(?<![\w*~])(?P<sign>\*{1,3}|~~?)(?=[^\s*~])[^*~]{1,300}?(?<=[^\s*~])(?P=sign)(?![\w*~])")
Edit = tuple[int, int, str]  # a range, and what is written there instead
Decode = Callable[[str, Sequence[Span]], Steps[Translation]]


def without_markup(text: str, spans: Sequence[Span]) -> tuple[Segment, list[Change], list[Span]] | None:
    """The text without tags in pairs, with their places; the changes that put them back; and the other spans.

    None for a text without.
    """
    marks = _marks(text, spans)
    pairs = _pairs(marks, blanked(text, spans))
    closing = set(pairs.values())
    taken = {mark[:2]: at for at, mark in enumerate(marks) if at in pairs or at in closing or mark.lone}
    spaces = [span for span in spans if is_space(span.text) and _around(text, span) == _around(text, span).strip()]
    if not taken and not spaces:
        return None
    edits = [(*place, "") for place in taken] + [(span.start, span.end, " ") for span in spaces]
    edits.sort()
    changes, own, around = _undoing(text, edits), list[Tag](), list[int]()
    for (start, end, _), change in zip(edits, changes, strict=True):
        number = taken.get((start, end))
        if number in closing:
            tag = own[around.pop()]
            tag.end, tag.close = change.end, change.text
            continue
        own.append(Tag(change.end, change.end, change.text, parent=around[-1] if around else -1))
        around += [len(own) - 1] if number in pairs else []
    others = list[Span]()
    for span in (span for span in spans if span not in spaces):
        at = span.start
        for start, end in [*(edit[:2] for edit in edits if span.start <= edit[0] < span.end), (span.end, span.end)]:
            if at < start:
                whole = (at, start) == (span.start, span.end)
                others.append(span if whole else replace(span, start=at, end=start, text=text[at:start]))
            at = end
    return Segment(_edited(text, edits), tuple(own)), changes, _moved(others, edits)


def _edited(text: str, edits: Sequence[Edit]) -> str:
    return changed_text(text, [Change(*edit) for edit in edits])


def _undoing(text: str, edits: Sequence[Edit]) -> list[Change]:
    """The changes that make the text out of the edited one."""
    changes, by = list[Change](), 0
    for start, end, new in edits:
        changes.append(Change(start + by, start + by + len(new), text[start:end]))
        by += len(new) - (end - start)
    return changes


def _moved(spans: Sequence[Span], edits: Sequence[Edit]) -> list[Span]:
    """The spans in the edited text."""
    return [span.moved(sum(len(new) - end + start for start, end, new in edits if end <= span.start)) for span in spans]


def _around(text: str, span: Span) -> str:
    return text[max(0, span.start - 1) : span.start] + span.text + text[span.end : span.end + 1]


class _Mark(NamedTuple):
    start: int
    end: int
    name: str
    closes: bool
    lone: bool  # it is at a word, also without its other one; others may be the name of something, as <file> is


def _marks(text: str, spans: Sequence[Span]) -> list[_Mark]:
    """Marks that may open or close a pair, in order."""
    marks = []
    for span in (span for span in spans if not span.text.startswith(_CODE)):
        whole = _TAGS.fullmatch(span.text)
        for tag in _TAG.finditer(text, span.start, span.end):
            if tag["empty"] or BREAK.match(tag[0]):
                continue
            near = text[tag.start() - 1 : tag.start()] if tag["closes"] else text[tag.end() : tag.end() + 1]
            marks.append(_Mark(*tag.span(), tag["name"].lower(), bool(tag["closes"]), bool(whole and near.isalnum())))
    hidden = covered(text, [span for span in spans if not _FORUM.fullmatch(span.text)])
    marks += [_Mark(*one.span(), one["name"].lower(), bool(one["closes"]), False) for one in _FORUM.finditer(hidden)]
    for one in _EMPHASIS.finditer(hidden):
        sign = one["sign"]
        marks.append(_Mark(one.start(), one.start() + len(sign), sign, False, False))
        marks.append(_Mark(one.end() - len(sign), one.end(), sign, True, False))
    return sorted(marks)


def _pairs(marks: Sequence[_Mark], hidden: str) -> dict[int, int]:
    """The closing mark of each opening one that has letters after it; by their numbers."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for number, mark in enumerate(marks):
        if not mark.closes:
            opened.append(number)
            continue
        same = [place for place, other in enumerate(opened) if marks[other].name == mark.name]
        if same:
            first = opened[same[-1]]
            if any(map(str.isalpha, hidden[marks[first].end : mark.start])):
                pairs[first] = number
            del opened[same[-1] :]
    return pairs


def marked(
    text: str, segment: Segment, changes: Sequence[Change], spans: Sequence[Span], answer: Translation
) -> Translation:
    """The translation of `text` from that of its segment with `spans`, in which no tag goes."""

    def tagged(one: Answer) -> Answer:
        fixed = sorted(match.span() for span in spans for match in re.finditer(re.escape(span.text), one.text))
        parts = transfer(segment, [Piece(0, len(segment.text), replace(answer, hypotheses=(one,)))])
        own, at = list[Change](), len(one.text) - len(one.text.lstrip())
        for part in parts:
            if not part.markup:
                at += len(part.text)
                continue
            within = next((place for place in fixed if place[0] < at < place[1]), (at, at))
            place = within[part.text.startswith(("</", "&lt;/"))]
            place = max(place, own[-1].end if own else 0)
            space = is_space(part.text) and one.text[place - 1 : place].isspace()
            own.append(Change(place - space, place, part.text))
        return changed_answer(one, own)

    answers = tuple(map(tagged, answer.hypotheses))
    return changed_source(replace(answer, hypotheses=answers), text, changes)


def reference_steps(text: str, spans: Sequence[Span], decode: Decode) -> Steps[Translation]:
    """The translation of a text, decoded with the letters and signs that its references stand for."""
    signs = [each for each in find_references(text) if not overlaps(Span(*each), spans)] if "&" in text else []
    if not signs:
        return (yield from decode(text, spans))
    answer = yield from decode(_edited(text, signs), _moved(spans, signs))
    forms = {sign: text[start:end] for start, end, sign in signs}
    if '"' not in text:
        forms.setdefault('"', "&quot;")
    fixed = [span.text for span in spans]
    answers = (
        changed_answer(each, [Change(*one) for one in to_references(each.text, forms, fixed)])
        for each in answer.hypotheses
    )
    return changed_source(replace(answer, hypotheses=tuple(answers)), text, _undoing(text, signs))
