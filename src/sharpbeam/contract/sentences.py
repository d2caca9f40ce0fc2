"""A sentence with what the contract promises: letter case around numbers around protected spans."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from sharpbeam.contract.markup import marked, reference_steps, without_markup
from sharpbeam.contract.names import named_steps
from sharpbeam.contract.spans import span_steps, with_spans
from sharpbeam.contract.steps import Job, Steps
from sharpbeam.contract.words import WordAttention, word_attention
from sharpbeam.decoding.results import Answer, Translation, answer_flags
from sharpbeam.text.case import Case, case_of, language_of, outside, titled, upper
from sharpbeam.text.flags import lost_numbers
from sharpbeam.text.glossary import Glossary
from sharpbeam.text.spans import Span, blanked, find_spans, kept, with_foreign
from sharpbeam.text.spelling import Spelling

_BRACKETED = re.compile(r"[(\uff08][^()\uff08\uff09]*\d")
LITTLE = 3  # letters of a word that is written in capitals only for the word that it is the likeliest of
AGAIN: dict[str, Any] = {"beam_size": 5, "num_hypotheses": 5, "patience": 1.0}


@dataclass(frozen=True, slots=True)
class Contract:
    """How lines are translated."""

    language: str = ""  # of the source
    target: str = ""  # the language of the translation
    attends: bool = True  # the model has attention
    attention: bool = False  # and answers have it
    penalty: float = 0.0  # the length penalty of a line's score
    pattern: re.Pattern[str] | None = None  # of spans that the user wants to be protected
    glossary: Glossary | None = None  # whose terms are found in what is decoded
    again: bool = True  # what is unsound is decoded again
    plain: bool = False  # there is nothing to protect, as `is_plain` says
    messages: int = 3  # ICU messages inside of each other that are translated
    changes: Mapping[str, Any] = field(default_factory=dict)  # of options, for all jobs
    tags: Collection[str] = ()  # languages that a line may name itself, as >>fra<<, for all of its sentences
    spelling: Spelling = field(default_factory=Spelling)  # of the source


def sentence_steps(text: str, spans: Sequence[Span], contract: Contract) -> Steps[Translation]:
    """The translation of a sentence."""
    if contract.plain:
        (answer,) = yield [Job(text, dict(contract.changes))]
        best, cut = answer.hypotheses[0], answer.truncated
        return replace(answer, sentence_flags=answer_flags(text, best, (), cut, contract.target))
    if not (marked_up := without_markup(text, spans)):
        return (yield from reference_steps(text, spans, partial(_unmarked_steps, contract=contract)))
    segment, changes, others = marked_up
    inner = replace(contract, changes={**contract.changes, **({"return_attention": True} if contract.attends else {})})
    answer = marked(text, segment, changes, others, (yield from sentence_steps(segment.text, others, inner)))
    return answer if contract.changes.get("return_attention") else bare(answer, contract)


def _unmarked_steps(text: str, spans: Sequence[Span], contract: Contract) -> Steps[Translation]:
    """The same for a sentence without markup."""
    exact = contract.glossary.terms if contract.glossary else {}  # found as written, so that decoding has to see it so
    own = [term for term in _terms(text, contract) if term.text in exact and not term.text.islower()]
    hidden = blanked(text, [*spans, *own])
    case = case_of(text, hidden, contract.language, contract.spelling.rarity)
    changes = dict(contract.changes)
    if case and case.name == "words" and contract.attends:
        changes["return_attention"] = True
    decode = partial(_number_steps, spans=spans, contract=contract)
    if case and case.name != "words":
        language = language_of(hidden, contract.language)
        answer = yield from named_steps(case, language, contract.spelling.rarity, contract.attends, changes, decode)
    else:
        answer = yield from decode(case.text if case else text, changes)
    answers = answer.hypotheses
    if case:
        fixed = [span.text for span in spans]
        answers = tuple(_in_case(answer, each, case, fixed, contract.target) for each in answers)
    answers, without = tuple(with_spans(text, each, spans) for each in answers), answers[0]
    flags = dict.fromkeys(answer.sentence_flags or ())
    flags |= dict.fromkeys(answer_flags(text, answers[0], spans, answer.truncated, contract.target))
    if not kept(text, without.text, spans):
        flags["span"] = None
    answer = replace(answer, source=text, hypotheses=answers, sentence_flags=tuple(flags))
    return answer if contract.changes.get("return_attention") else bare(answer, contract)


def spans_of(text: str, own: re.Pattern[str] | Sequence[tuple[int, int]] | None, contract: Contract) -> list[Span]:
    """The protected spans of a text, as of `find_spans`, without those in a term of the glossary."""
    terms, spans = _terms(text, contract), find_spans(text, own)
    return [span for span in spans if not any(one.start <= span.start and span.end <= one.end for one in terms)]


def _terms(text: str, contract: Contract) -> list[Span]:
    terms = contract.glossary.find(text) if contract.glossary else []
    return [Span(term.start, term.end, text[term.start : term.end]) for term in terms]


def with_unwritten(text: str, spans: Sequence[Span], contract: Contract) -> Sequence[Span]:
    """The spans, and words that the vocabulary cannot write in the case in which they are decoded."""
    hidden, spelling = blanked(text, [*spans, *_terms(text, contract)]), contract.spelling
    if contract.plain or not spelling.lacks(hidden):
        return spans
    case = case_of(text, hidden, contract.language, spelling.rarity)
    return with_foreign(text, spans, case.text if case else text, spelling.lacks)


def bare(translation: Translation, contract: Contract) -> Translation:
    """The translation without attention that was not asked for."""
    if contract.attention:
        return translation
    answers = tuple(replace(answer, attention=None) for answer in translation.hypotheses)
    return replace(translation, hypotheses=answers, source_tokens=())


def _number_steps(
    text: str, changes: Mapping[str, Any], spans: Sequence[Span], contract: Contract
) -> Steps[Translation]:
    """The translation of a sentence, decoded again where it lacks a number."""
    answer = yield from span_steps(text, spans, contract.attends, changes)
    hidden = blanked(text, spans)
    lost = lost_numbers(hidden, answer.text)
    if not lost:
        return answer
    brackets = len(_BRACKETED.findall(text))  # "300 km (190 miles)" is not "300 km 190"
    if not spans:
        (again,) = yield [Job(text, {**AGAIN, **changes})]
        sound = (each for each in again.hypotheses if not lost_numbers(hidden, each.text))
        if better := next((each for each in sound if len(_BRACKETED.findall(each.text)) >= brackets), None):
            return replace(again, hypotheses=(better, *answer.hypotheses[1:]))
    numbers = [Span(start, end, text[start:end]) for start, end in lost]
    every = sorted([*spans, *numbers], key=lambda span: span.start)
    other = yield from span_steps(text, every, contract.attends, changes)
    whole = len(_BRACKETED.findall(other.text)) >= brackets
    return other if whole and kept(text, other.text, spans) else answer


def _in_case(translation: Translation, answer: Answer, case: Case, fixed: Sequence[str], language: str) -> Answer:
    """The answer in the case of the source; its tokens stay."""
    if case.name == "upper":
        return replace(answer, text=outside(answer.text, fixed, lambda text: upper(text, language)))
    if case.name == "title":
        language = language_of(answer.text, language)
        begins = answer.text.startswith
        text = outside(answer.text, fixed, lambda part: titled(part, case.small, language, begins(part)))
        return replace(answer, text=text)
    attention = word_attention(case.text, answer.text, replace(translation, hypotheses=(answer,)))
    capitals = {index for index, word in enumerate(attention.source) if word in case.words}
    text = answer.text
    for (start, end), large in reversed(list(zip(attention.target, _large(attention, capitals), strict=True))):
        if large:
            text = text[:start] + upper(text[start:end], language) + text[end:]
    whole = all(text.count(one) >= answer.text.count(one) for one in fixed)
    return replace(answer, text=text) if whole else answer


def _large(attention: WordAttention, capitals: Collection[int]) -> list[bool]:
    """Which words of a translation are in capitals: those that attend most to source words that are.

    A little word is only where it is the likeliest of its source word, or between two that are: not in "a PBS".
    """
    likeliest = attention.weights.argmax(1).tolist() if attention.weights.size else [-1] * len(attention.target)
    little = [end - start <= LITTLE for start, end in attention.target]
    large = [word in capitals for word in likeliest]
    sure = [
        large[number] and (not little[number] or bool(attention.weights[:, word].argmax() == number))
        for number, word in enumerate(likeliest)
    ]
    around = zip([False, *sure], [*sure[1:], False], strict=False)
    return [one or (own and before and after) for one, own, (before, after) in zip(sure, large, around, strict=False)]
