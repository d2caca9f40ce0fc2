"""Guards: find translations that lost a part of the source, loop, copy it or are garbage, and decode them again.

omission: neighboring words of the source got almost no attention. A word is missing by as much as its total attention
stays below one half; the run of words that misses most must miss more than MOST_MISSING words. The threshold is from
Tatoeba and newstest, where under 0.5% of the sentences of a model with guided alignment are above it (docs/lab).
The other flags are those of text/flags.py.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

from sharpbeam.contract.sentences import Contract, bare, sentence_steps, with_unwritten
from sharpbeam.contract.steps import Steps, together
from sharpbeam.contract.words import piece_ranges, words
from sharpbeam.decoding.results import Answer, Translation, answer_flags
from sharpbeam.text.flags import Flag
from sharpbeam.text.sentences import split_sentences
from sharpbeam.text.spans import Span, covered, find_spans

MOST_MISSING = 1.3  # words
ENOUGH = 0.5  # attention to a word, over all tokens of the translation
AGAIN: dict[str, Any] = {"beam_size": 6, "num_hypotheses": 6, "patience": 1.0}
ATTENDING: dict[str, Any] = {"return_attention": True, "coverage_penalty": 0.2}
_CLAUSE = re.compile("[;:,]\\s+|[\u2014\u3001\uff0c\uff1b]\\s*")
_IDEOGRAPH = "[\u3040-\u30ff\u3400-\u9fff]"

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of a translation."""

    flags: tuple[Flag, ...] = ()
    missing: float = 0.0  # words of the source in the longest run without attention
    lost: Range = (0, 0)  # their range in the source

    @property
    def faults(self) -> tuple[Flag, ...]:
        """The flags without "language": an optional package tells it, and no answer depends on that."""
        return tuple(flag for flag in self.flags if flag != "language")


@dataclass(frozen=True, slots=True)
class Decoded:
    """A sentence: ranges of it in order, the translation of each, and what the guards say."""

    parts: tuple[tuple[Range, Translation], ...]
    verdict: Verdict = Verdict()
    repaired: bool = False  # the first answer was unsound, and another one took its place
    sentences: bool = False  # the parts are sentences

    @property
    def badness(self) -> tuple[int, bool, float]:
        """The lower, the better."""
        return len(self.verdict.faults), not self.sentences, self.verdict.missing

    @staticmethod
    def whole(translation: Translation, verdict: Verdict = Verdict()) -> Decoded:
        """A sentence that was decoded as one."""
        return Decoded((((0, len(translation.source)), translation),), verdict)


def check_translation(
    translation: Translation, rank: int = 0, spans: Sequence[Span] | None = None, target: str = ""
) -> Verdict:
    """Judge an answer of a translation into the language `target`; omissions are seen only where it has attention."""
    source, answer = translation.source, translation.hypotheses[rank]
    spans = find_spans(source) if spans is None else spans
    missing, lost = _longest_gap(source, answer, translation.source_tokens, spans)
    flags: list[Flag] = ["omission"] if missing > MOST_MISSING else []
    own = translation.sentence_flags if rank == 0 else None
    flags += own if own is not None else answer_flags(source, answer, spans, translation.truncated, target)
    return Verdict(tuple(flags), missing, lost)


def coverage(source: str, answer: Answer, source_tokens: Sequence[str]) -> tuple[list[Range], list[float]]:
    """Ranges of the words of the source, without signs, and the attention that each got in all, at most 1."""
    places = [word for word in words(source) if source[word[0]].isalnum()]
    total, ends = [0.0] * len(places), [end for _, end in places]
    rows = (answer.attention or ())[: len(answer.tokens)]
    received = map(sum, zip(*rows, strict=True))  # numpy takes three times as long to read tuples
    for (start, end), share in zip(piece_ranges(source_tokens, source), received, strict=False):
        own = bisect_right(ends, start)  # the first word that ends after it begins
        if own < len(places) and max(start, places[own][0]) < end:
            total[own] += share
    return places, [min(share, 1.0) for share in total]


def _longest_gap(
    source: str, answer: Answer, source_tokens: Sequence[str], spans: Sequence[Span]
) -> tuple[float, Range]:
    if not answer.attention or not source_tokens:
        return 0.0, (0, 0)
    places, shares = coverage(source, answer, source_tokens)
    best, lost, total, begin = 0.0, (0, 0), 0.0, 0
    for index, (start, end) in enumerate(places):
        if total <= 0:
            total, begin = 0.0, start
        if spans and any(span.start < end and start < span.end for span in spans):  # it is there
            continue
        size = 0.5 if re.match(_IDEOGRAPH, source[start]) else 1.0
        total += size * (1.0 - shares[index] / ENOUGH)
        if total > best:
            best, lost = total, (begin, end)
    return best, lost


def guarded_steps(text: str, spans: Sequence[Span], contract: Contract) -> Steps[Decoded]:
    """The translation of a sentence, decoded again where it is unsound; the soundest answer counts.

    Omissions are looked for where the contract changes the options to have attention.
    """
    spans = with_unwritten(text, spans, contract)
    first = yield from sentence_steps(text, spans, contract)
    # Attention that only the user wants shows no omission: an answer is the same without.
    judged = first if contract.changes.get("return_attention") else replace(first, source_tokens=())
    best = Decoded.whole(first, check_translation(judged, 0, spans, contract.target))
    faults = best.verdict.faults
    if not faults or (faults == ("cut",) and first.cut) or not contract.again:
        return best
    attempts = yield from together(list(_attempts(text, spans, best.verdict, contract)))
    chosen = min([best, *chain(*attempts)], key=lambda one: one.badness)
    if chosen is best:
        return best
    parts = [(place, bare(answer, contract)) for place, answer in chosen.parts]
    if len(parts) == 1:
        others_too = (*parts[0][1].hypotheses, *first.hypotheses[1:])
        parts = [(parts[0][0], replace(parts[0][1], hypotheses=others_too))]
    return replace(chosen, parts=tuple(parts), repaired=True)


def inside(spans: Sequence[Span], start: int, end: int) -> list[Span]:
    """The spans in a range of a text, as those of that part."""
    return [span.moved(-start) for span in spans if start <= span.start < end]


def _attempts(
    source: str, spans: Sequence[Span], verdict: Verdict, contract: Contract
) -> Iterator[Steps[list[Decoded]]]:
    """Ways to decode a source again: by a larger beam with a coverage penalty, and in pieces."""
    again = partial(_decoded_again, source, spans, contract)
    yield again([(0, len(source))], AGAIN | (ATTENDING if contract.attends else {}))
    hidden = covered(source, spans)  # nothing is cut in a span
    whole = split_sentences(hidden, contract.language)
    ranges = tuple(whole) if len(whole) > 1 else _clauses(hidden, verdict)
    if len(ranges) > 1:
        yield again(ranges, {"return_attention": True} if contract.attends else {}, sentences=len(whole) > 1)


def _clauses(source: str, verdict: Verdict) -> tuple[Range, ...]:
    """Two parts of a source, cut at the clause nearest to an end of what was lost; or the source as it is."""
    cuts = [match.end() for match in _CLAUSE.finditer(source) if 0 < match.end() < len(source)]
    if not cuts:
        return ((0, len(source)),)
    ends = verdict.lost if verdict.missing else (len(source) // 2,) * 2
    cut = min(cuts, key=lambda place: min(abs(place - end) for end in ends))
    return ((0, len(source[:cut].rstrip())), (cut, len(source)))


def _decoded_again(
    text: str,
    spans: Sequence[Span],
    contract: Contract,
    ranges: Sequence[Range],
    changes: Mapping[str, Any],
    sentences: bool = False,
) -> Steps[list[Decoded]]:
    """Ranges of a text, which may be its `sentences`, by changed options; each hypothesis of one that is whole."""
    changed = replace(contract, changes={**contract.changes, **changes}, plain=False)
    own = [inside(spans, *place) for place in ranges]
    parts = zip(ranges, own, strict=True)
    answers = yield from together([sentence_steps(text[slice(*place)], each, changed) for place, each in parts])
    if len(answers) > 1:
        judged = zip(answers, own, strict=True)
        verdicts = [check_translation(answer, 0, each, contract.target) for answer, each in judged]
        flags: dict[Flag, None] = {flag: None for verdict in verdicts for flag in verdict.flags}
        worst = Verdict(tuple(flags), max(verdict.missing for verdict in verdicts))
        return [Decoded(tuple(zip(ranges, answers, strict=True)), worst, sentences=sentences)]
    (answer,) = answers
    return [
        Decoded.whole(replace(answer, hypotheses=(hypothesis,), sentence_flags=verdict.flags), verdict)
        for rank, hypothesis in enumerate(answer.hypotheses)
        for verdict in [check_translation(answer, rank, spans, contract.target)]
    ]
