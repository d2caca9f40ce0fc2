"""Documents as steps: their sentences are decoded between them, and put together with markup and terms."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic

from sharpbeam.contract.answers import Piece, joined
from sharpbeam.contract.confidence import Word, aligned_words, mean_confidence, word_confidences
from sharpbeam.contract.guards import Decoded, guarded_steps
from sharpbeam.contract.lines import cut_sentence, is_plain, sentence_ranges
from sharpbeam.contract.sentences import Contract, sentence_steps, spans_of, with_unwritten
from sharpbeam.contract.steps import Steps, together
from sharpbeam.contract.terms import with_terms
from sharpbeam.contract.transfer import transfer
from sharpbeam.decoding.results import EMPTY, Translation
from sharpbeam.documents.formats.interface import Content, Document
from sharpbeam.options.documents import DocumentOptions
from sharpbeam.text.flags import Flag
from sharpbeam.text.glossary import Glossary
from sharpbeam.text.segment import Part, Segment, is_translatable
from sharpbeam.text.spans import Span, find_spans
from sharpbeam.text.spelling import Spelling

_Job = tuple[str, tuple[tuple[int, int], ...]]  # a sentence, and the ranges in it that stay


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a document."""

    source: str
    text: str  # its translation, without markup
    flags: tuple[Flag, ...] = ()  # how it is unsound: omission, loop, copy, cut
    repaired: bool = False  # the first translation was unsound; this is a better one
    confidence: float = 1.0  # the share of its words that a reference is expected to have
    words: tuple[Word, ...] = ()  # of the translation; only with `details` of `document_steps`
    source_words: tuple[tuple[int, int], ...] = ()  # their ranges of characters, where there is attention


@dataclass(frozen=True, slots=True)
class DocumentTranslation(Generic[Content]):
    """A translated document."""

    content: Content  # the document, in its format
    sentences: tuple[Sentence, ...]  # in order

    @property
    def flagged(self) -> tuple[Sentence, ...]:
        """Sentences that the guards found unsound, and could not repair."""
        return tuple(sentence for sentence in self.sentences if sentence.flags)


def document_steps(
    document: Document[Content],
    options: DocumentOptions,
    language: str = "",
    attends: bool = True,
    glossary: Glossary | None = None,
    confidence: bool = True,
    details: bool = False,
    target: str = "",
    spelling: Spelling | None = None,
    again: bool = True,
) -> Steps[DocumentTranslation[Content]]:
    """The jobs of a document, at most `options.at_once` at a time; returns the translated document.

    `language` is that of the source, for splitting sentences; a page that says that it is in it says afterwards that it
    is in `target`. Without attention (`attends`) markup is moved by the order of words, and omissions are not seen.
    Their answers have the terms of `glossary`.
    Without `confidence` that of sentences is 1; `details` give them their words. `spelling` is that of the source.
    Unsound sentences are decoded `again`, which sampling does not allow.
    """
    how: Any = {"attention": True, "glossary": glossary, "again": again, "spelling": spelling or Spelling()}
    contract = Contract(language, target, attends, **how)
    segments, parts, sentences = document.segments, list[list[Part]](), list[Sentence]()
    ranges = [_sentence_ranges(segment, options, language, contract.spelling) for segment in segments]
    first = 0
    while first < len(ranges):
        last, count = first, 0
        while last < len(ranges) and (last == first or count + len(ranges[last]) <= options.at_once):
            count += len(ranges[last])
            last += 1
        group = list(zip(segments[first:last], ranges[first:last], strict=True))
        jobs: dict[_Job, bool] = {}  # whether each needs attention
        every = list[_Job]()
        for segment, own in group:
            for start, end in own:
                every.append((text := segment.text[start:end], _stays(segment, start, end)))
                if is_translatable(text):
                    jobs[every[-1]] = jobs.get(every[-1], False) or bool(attends and segment.tags)
        own_steps = [_decode_steps(*job, needs, options.guards, contract) for job, needs in jobs.items()]
        answers = list[Decoded]()
        while own_steps:  # a segment may have more sentences
            some, own_steps = own_steps[: options.at_once], own_steps[options.at_once :]
            answers += yield from with_terms(together(some), contract)
        decoded, order = dict(zip(jobs, answers, strict=True)), iter(every)
        for segment, own in group:
            pieces = []
            for start, end in own:
                text = segment.text[start:end]
                one = decoded.get(next(order)) or Decoded.whole(Translation(text, (replace(EMPTY, text=text),)))
                pieces += [Piece(start + place[0], start + place[1], answer) for place, answer in one.parts]
                sentences.append(_sentence(text, one, confidence, details))
            parts.append(transfer(segment, pieces))
        first = last
    return DocumentTranslation(document.write(parts, (language, target)), tuple(sentences))


def _sentence_ranges(
    segment: Segment, options: DocumentOptions, language: str, spelling: Spelling
) -> list[tuple[int, int]]:
    """Ranges of the sentences of a segment; none ends inside of fixed text."""
    if not segment.text:
        return []
    whole = (0, len(segment.text.rstrip() if options.split_sentences else segment.text))
    if not options.split_sentences or is_plain(segment.text, spelling):
        return [*cut_sentence(segment.text, *whole, options.max_sentence)]
    merged: list[tuple[int, int]] = []
    fixed = [(tag.start, tag.end) for tag in segment.tags if tag.fixed]  # none is in another one
    letters = list(segment.text)
    for start, end in fixed:  # is a word of a sentence, not its bullet
        letters[start:end] = "X" * (end - start)
    hidden = "".join(letters)
    for start, end in sentence_ranges(hidden, find_spans(hidden), language, options.max_sentence):
        near = fixed[max(bisect_left(fixed, (start, 0)) - 1, 0) : bisect_left(fixed, (end, 0))]
        parts = [(start, end), *(tag for tag in near if start < tag[1])]
        if merged and min(parts)[0] < merged[-1][1]:
            parts.append(merged.pop())
        merged.append((min(parts)[0], max(end for _, end in parts)))
    return merged


def _stays(segment: Segment, start: int, end: int) -> tuple[tuple[int, int], ...]:
    """Ranges in segment.text[start:end] that stay: of fixed tags with text."""
    own = (tag for tag in segment.tags if tag.fixed and start <= tag.start < tag.end <= end)
    return tuple((tag.start - start, tag.end - start) for tag in own)


def _decode_steps(
    text: str, stays: Sequence[tuple[int, int]], attended: bool, guarded: bool, contract: Contract
) -> Steps[Decoded]:
    """Decode a sentence, with attention if it is `attended` or guarded; what `stays`, and spans, are not translated."""
    spans: Sequence[Span] = spans_of(text, stays, contract)
    attends = contract.attends and (guarded or attended)
    plain = not spans and is_plain(text, contract.spelling)
    own = replace(contract, changes={"return_attention": True} if attends else {}, plain=plain)
    if guarded:
        return (yield from guarded_steps(text, spans, own))
    return Decoded.whole((yield from sentence_steps(text, with_unwritten(text, spans, own), own)))


def _sentence(source: str, decoded: Decoded, confident: bool, details: bool) -> Sentence:
    pieces = [Piece(*place, answer) for place, answer in decoded.parts]
    line = joined(source, pieces, 0.0)
    words, source_words = aligned_words(source, line) if details else ([], [])
    if confident and not details:
        words = word_confidences(line.hypotheses[0])
    facts = decoded.verdict.flags, decoded.repaired, mean_confidence(words)
    return Sentence(source, line.text, *facts, *((tuple(words), tuple(source_words)) if details else ()))
