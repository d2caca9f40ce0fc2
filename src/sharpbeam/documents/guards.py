"""Guards: find translations that lost a part of the source, loop, copy it or were cut off, and decode them again.

omission: neighboring words of the source got almost no attention. A word is missing by as much as its total attention
stays below one half; the run of words that misses most must miss more than MOST_MISSING words. The threshold is from
Tatoeba and newstest, where under 0.5% of the sentences of a model with guided alignment are above it (docs/lab).
The other flags are those of text/flags.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpbeam.contract.steps import Job
from sharpbeam.contract.words import piece_ranges, words
from sharpbeam.decoding.results import Answer, Translation
from sharpbeam.text.flags import Flag, text_flags
from sharpbeam.text.sentences import split_sentences
from sharpbeam.text.spans import Span, find_spans

MOST_MISSING = 1.3  # words
ENOUGH = 0.5  # attention to a word, over all tokens of the translation
AGAIN: dict[str, Any] = {"return_attention": True, "coverage_penalty": 0.2, "beam_size": 6, "num_hypotheses": 6}
_CLAUSE = re.compile("[;:,\u2014\u3001\uff0c\uff1b]\\s*")
_IDEOGRAPH = re.compile("[\u3040-\u30ff\u3400-\u9fff]")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of a translation."""

    flags: tuple[Flag, ...] = ()
    missing: float = 0.0  # words of the source in the longest run without attention
    lost: tuple[int, int] = (0, 0)  # their range in the source


def check(source: str, answer: Answer, source_tokens: Sequence[str], truncated: bool = False) -> Verdict:
    """Judge an answer; omissions are seen only where it has attention."""
    flags: list[Flag] = []
    spans = find_spans(source)
    missing, lost = _longest_gap(source, answer, source_tokens, spans)
    if missing > MOST_MISSING:
        flags.append("omission")
    flags += text_flags(source, answer.text, spans)
    if truncated or (answer.tokens and len(answer.token_scores) == len(answer.tokens)):
        flags.append("cut")
    return Verdict(tuple(flags), missing, lost)


def check_translation(translation: Translation) -> Verdict:
    """Judge the best answer of a translation."""
    return check(translation.source, translation.hypotheses[0], translation.source_tokens, translation.truncated)


def coverage(
    source: str, answer: Answer, source_tokens: Sequence[str]
) -> tuple[list[tuple[int, int]], NDArray[np.float64]]:
    """Ranges of the words of the source, without signs, and the attention that each got in all, at most 1."""
    found = [word for word in words(source) if source[word[0]].isalnum()]
    total = np.zeros(len(found))
    owner = np.full(len(source) + 1, -1)
    for index, (start, end) in enumerate(found):
        owner[start:end] = index
    received = np.array(answer.attention)[: len(answer.tokens), :-1].sum(0)
    for (start, end), share in zip(piece_ranges(source_tokens, source), received, strict=True):
        inside = owner[start:end]
        inside = inside[inside >= 0]
        if len(inside):
            total[inside[0]] += share
    return found, np.minimum(total, 1.0)


def _longest_gap(
    source: str, answer: Answer, source_tokens: Sequence[str], spans: Sequence[Span]
) -> tuple[float, tuple[int, int]]:
    if not answer.attention or not source_tokens:
        return 0.0, (0, 0)
    found, covered = coverage(source, answer, source_tokens)
    best, lost, total, begin = 0.0, (0, 0), 0.0, 0
    for index, (start, end) in enumerate(found):
        if total <= 0:
            total, begin = 0.0, start
        if any(span.start < end and start < span.end for span in spans):  # it is there
            continue
        size = 0.5 if _IDEOGRAPH.match(source[start]) else 1.0
        total += size * (1.0 - float(covered[index]) / ENOUGH)
        if total > best:
            best, lost = total, (begin, end)
    return best, lost


@dataclass(frozen=True, slots=True)
class Attempt:
    """Another way to decode a source: ranges of it, and a job for each."""

    ranges: tuple[tuple[int, int], ...]
    jobs: tuple[Job, ...]
    sentences: bool = False  # the ranges are whole sentences, which are best decoded one by one


def attempts(source: str, verdict: Verdict, attends: bool = True, language: str = "") -> Iterator[Attempt]:
    """Ways to decode a source again: with a coverage penalty, and in pieces."""
    if verdict.flags == ("cut",):
        return
    again = AGAIN if attends else {"beam_size": 6, "num_hypotheses": 6}
    attention = {"return_attention": True} if attends else {}
    yield Attempt(((0, len(source)),), (Job(source, again),))
    whole = split_sentences(source, language)
    ranges = tuple(whole) if len(whole) > 1 else _clauses(source, verdict)
    if len(ranges) > 1:
        yield Attempt(ranges, tuple(Job(source[start:end], attention) for start, end in ranges), len(whole) > 1)


def _clauses(source: str, verdict: Verdict) -> tuple[tuple[int, int], ...]:
    """Two parts of a source, cut at the clause nearest to an end of what was lost; or the source as it is."""
    cuts = [match.end() for match in _CLAUSE.finditer(source) if 0 < match.end() < len(source)]
    if not cuts:
        return ((0, len(source)),)
    ends = verdict.lost if verdict.missing else (len(source) // 2,) * 2
    cut = min(cuts, key=lambda place: min(abs(place - end) for end in ends))
    return ((0, len(source[:cut].rstrip())), (cut, len(source)))
