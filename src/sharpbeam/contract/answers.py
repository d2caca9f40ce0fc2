"""Answers in which a span takes the place of its stand-in, and answers to the parts of a line as one.

The tokens, scores and attention of an answer stay true to its text: a span is one token. Its score is that of its
stand-in; where the answer was decoded without one it is 0, and the span attends to no token. Scores of a line are those
of its sentences, one after another; the score of the end of a sentence inside of the line is added to that of its last
token.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sharpbeam.contract.words import SPACE, piece_ranges
from sharpbeam.decoding.results import Answer, Translation
from sharpbeam.text.spans import Span

_WIDE = r"[⺀-鿿豈-﫿＀-￯]"  # scripts without spaces


@dataclass(frozen=True, slots=True)
class Change:
    """A range of a text, empty for a place in it, and what is written there instead."""

    start: int
    end: int
    text: str


def changed_text(text: str, changes: Sequence[Change]) -> str:
    """The text with changes that are in order."""
    for change in reversed(changes):
        text = text[: change.start] + change.text + text[change.end :]
    return text


def _groups(tokens: Sequence[str], text: str, changes: Sequence[Change]) -> list[tuple[list[int], str]]:
    """The tokens after the changes: of which old ones each consists, and its piece."""
    groups: list[tuple[list[int], str]] = []
    ranges = piece_ranges(tokens, text)
    at = 0
    for change in changes:
        while at < len(ranges) and (ranges[at][1] <= change.start or ranges[at][0] == ranges[at][1] < change.end):
            groups.append(([at], tokens[at]))
            at += 1
        own: list[int] = []
        while at < len(ranges) and ranges[at][0] < change.end:
            own.append(at)
            at += 1
        first = min([change.start, *(ranges[index][0] for index in own)])
        last = max([change.end, *(ranges[index][1] for index in own)])
        spaced = SPACE if first == 0 or text[first - 1 : first].isspace() or not own else ""
        piece = text[first : change.start] + change.text + text[change.end : last]
        groups.append((own, spaced + piece.strip()))
    return [*groups, *(([index], tokens[index]) for index in range(at, len(tokens)))]


def changed_source(translation: Translation, source: str, changes: Sequence[Change]) -> Translation:
    """The translation of the text `translation.source` with changes, which is `source`; its answers stay."""
    if not translation.source_tokens:
        return replace(translation, source=source)
    groups = _groups(translation.source_tokens, translation.source, changes)
    pieces = tuple(piece for _, piece in groups)

    def columns(answer: Answer) -> Answer:
        if answer.attention is None:
            return answer
        old = np.array(answer.attention)
        shares = [old[:, own].sum(1) for own, _ in groups] + [old[:, -1]]
        return replace(answer, attention=tuple(map(tuple, np.stack(shares, 1).tolist())))

    answers = tuple(map(columns, translation.hypotheses))
    return replace(translation, source=source, hypotheses=answers, source_tokens=pieces)


def changed_answer(answer: Answer, changes: Sequence[Change]) -> Answer:
    """The answer with changes in its text."""
    text = changed_text(answer.text, changes)
    if not answer.tokens and not changes:
        return replace(answer, text=text)
    groups = _groups(answer.tokens, answer.text, changes)
    tokens = tuple(piece for _, piece in groups)
    scores, count = answer.token_scores, len(answer.tokens)
    if scores:
        scores = (*(sum(scores[index] for index in own) for own, _ in groups), *scores[count:])
    attention = answer.attention
    if attention is not None:
        width = len(attention[0]) if attention else 1
        none = (0.0,) * (width - 1) + (1.0,)
        rows = [tuple(np.mean([attention[index] for index in own], 0).tolist()) if own else none for own, _ in groups]
        attention = (*rows, *attention[count:])
    return replace(answer, text=text, tokens=tokens, token_scores=scores, attention=attention)


def between(before: str, space: str, after: str) -> str:
    """The text between two sentences of a translation, for the `space` of the source.

    It follows the script: ideographs have no space between them, and other scripts get one.
    """
    if (space and not space.isspace()) or not before or not after:
        return space
    wide = bool(re.match(_WIDE, before[-1]) and re.match(_WIDE, after[0]))
    if not space:
        return "" if wide or before[-1].isspace() else " "
    return "" if wide and space == " " else space


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of a source text and its translation."""

    start: int
    end: int
    translation: Translation


def with_texts(source: str, spans: Sequence[Span], start: int, end: int) -> str:
    """A range of the source in which spans have their texts, which are translated in an ICU message."""
    own = (span for span in spans if start <= span.start < end)
    return changed_text(source[start:end], [Change(span.start - start, span.end - start, span.text) for span in own])


def joined_text(
    source: str, pieces: Sequence[Piece], rank: int = 0, spans: Sequence[Span] = ()
) -> tuple[str, list[tuple[int, int]]]:
    """The translation of a text from those of its pieces, and their ranges; between them only spans change."""
    text, at = "", 0
    places = []
    for piece in pieces:
        answers = piece.translation.hypotheses
        answer = answers[min(rank, len(answers) - 1)].text.strip()
        text += between(text, with_texts(source, spans, at, piece.start), answer)
        places.append((len(text), len(text) + len(answer)))
        text += answer
        at = piece.end
    return text + with_texts(source, spans, at, len(source)), places


def joined(source: str, pieces: Sequence[Piece], penalty: float, spans: Sequence[Span] = ()) -> Translation:
    """The translation of a line from those of its sentences; the hypothesis of a rank has those of that rank."""
    if len(pieces) == 1 and pieces[0].translation.source == source:
        return pieces[0].translation
    ranks = max((len(piece.translation.hypotheses) for piece in pieces), default=1)
    parts = [piece.translation for piece in pieces]
    answers = []
    for rank in range(ranks):
        text, _ = joined_text(source, pieces, rank, spans)
        own = [part.hypotheses[min(rank, len(part.hypotheses) - 1)] for part in parts]
        answers.append(_joined_answer(text, own, [len(part.source_tokens) for part in parts], penalty))
    truncated = any(part.truncated for part in parts)
    tokens = tuple(token for part in parts for token in part.source_tokens)
    flags = tuple(dict.fromkeys(flag for part in parts for flag in part.flags))
    return Translation(source, tuple(answers), truncated, tokens, flags)


def _length(part: Answer, penalty: float) -> float:
    """Tokens of the answer that the score is of, with those of a stand-in as they were decoded."""
    ratio = part.log_prob / part.score if part.log_prob and part.score and penalty else 0.0
    return ratio ** (1 / penalty) if ratio > 0 else max(1, len(part.token_scores))


def _joined_answer(text: str, parts: Sequence[Answer], widths: Sequence[int], penalty: float) -> Answer:
    tokens = tuple(token for part in parts for token in part.tokens)
    scores: list[float] = []
    rows: list[tuple[float, ...]] = []
    before, attends = 0, all(part.attention is not None for part in parts)
    for number, (part, width) in enumerate(zip(parts, widths, strict=True)):
        inner, own = number < len(parts) - 1, list(part.token_scores)
        if inner and len(own) > len(part.tokens):
            own[-2:] = [sum(own[-2:])] if part.tokens else []
        scores += own
        for row in (part.attention or ())[: len(part.tokens) if inner else None]:
            rows.append((0.0,) * before + row[:-1] + (0.0,) * (sum(widths) - before - width) + row[-1:])
        before += width
    logs = [part.log_prob for part in parts]
    total = None if None in logs else float(sum(filter(None, logs)))
    length = sum(_length(part, penalty) for part in parts)
    score = parts[0].score if len(parts) == 1 else None if total is None else total / length**penalty
    return Answer(text, score, total, tokens, tuple(scores), tuple(rows) if attends else None)
