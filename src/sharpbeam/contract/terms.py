"""Terms of a glossary in answers: a term that lacks takes the place of the words that attend most to its source.

The answer is decoded again from that place on, in several ways: after the words before it as they are, without the
short word right before it, and with others in its place ("o nome" for "a palavra"). The likeliest answer that has the
term counts. Where none has it, as its letters are not in the vocabulary, the words are replaced and nothing else.

Constraints in the search (Post & Vilar 2018) let the model choose the place, which often takes the wrong one: a term
that it would not say itself is improbable everywhere (docs/lab/guards.md).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from sharpbeam.contract.answers import Change, changed_answer
from sharpbeam.contract.sentences import Contract, bare
from sharpbeam.contract.steps import Job, R, Steps, together
from sharpbeam.contract.words import WordAttention, piece_ranges, word_attention
from sharpbeam.decoding.inputs import Forced
from sharpbeam.decoding.results import Answer, Translation
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.options.schema import require
from sharpbeam.text.glossary import Term, lacking, places

SHORT = 4  # letters of a word that changes with the one after it, as articles do
WORDS = 5  # likeliest ones that are tried in its place
MOST = 24  # ways that are tried for one term
ROUNDS = 8  # terms of a text for which it is decoded again; others replace words
ONCE: dict[str, Any] = {
    "beam_size": 1,
    "num_hypotheses": 1,
    "coverage_penalty": 0.0,
    "return_scores": True,
    "return_attention": False,
}
OWN = 0.5  # of its attention a word gives to a term that it translates
_REFUSED = {"sampling": False, "cube_pruning": "none", "return_alternatives": False, "prefix_bias_beta": 0.0}


def check_options(options: DecodeOptions) -> None:
    """Raise OptionError for options that do not go with a glossary."""
    for name, allowed in _REFUSED.items():
        value = getattr(options.search, name)
        require(value == allowed, name, value, f"{allowed!r} with a glossary")


def with_terms(steps: Steps[R], contract: Contract) -> Steps[R]:
    """The same steps, where the answer to each job has the terms of the contract's glossary that are in its text."""
    if contract.glossary is None:
        return (yield from steps)
    answers: Sequence[Translation] | None = None
    while True:
        try:
            jobs = next(steps) if answers is None else steps.send(answers)
        except StopIteration as done:
            result: R = done.value
            return result
        every = [term_steps(job, contract.glossary.find(job.text), contract.attends) for job in jobs]
        found = zip(jobs, (yield from together(every)), strict=True)
        answers = [answer if job.changes.get("return_attention") else bare(answer, contract) for job, answer in found]


def term_steps(job: Job, terms: Sequence[Term], attends: bool) -> Steps[Translation]:
    """The answer to a job with all `terms`, which are ranges of its text; with attention if the model `attends`."""
    job = replace(job, changes=job.changes | ({"return_attention": True} if terms and attends else {}))
    (answer,) = yield [job]
    for _ in terms[:ROUNDS]:
        words = _Words.of(answer, answer.hypotheses[0], terms)
        found = [(place, term) for term in lacking(terms, answer.text) if (place := words.place(term))]
        if not found:
            break
        place, term = min(found, key=lambda each: each[0])  # what is before it stays from here on
        better = yield from _decoded(job, answer, words, place, term, terms)
        first, *others = answer.hypotheses
        answer = better or replace(answer, hypotheses=(_replaced(answer, first, terms, [term]), *others))
    last = (_replaced(answer, each, terms, lacking(terms, each.text)) for each in answer.hypotheses)
    return replace(answer, hypotheses=tuple(last))


def moved(terms: Sequence[Term], translation: Translation) -> list[Term]:
    """The terms as ranges of a translation: the words that attend to them."""
    words = _Words.of(translation, translation.hypotheses[0], ())
    ranges = words.attention.target
    found = ((words.place(term), term.forms) for term in terms)
    return [Term(ranges[place.first][0], ranges[place.last][1], forms) for place, forms in found if place]


class _Place(NamedTuple):
    """Numbers of words: the first and the last of those that translate a term, and the one that attends most to it."""

    first: int
    likeliest: int
    last: int


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of an answer, and which ones may give way to a term: no signs, and none of another term."""

    text: str
    attention: WordAttention
    free: list[bool]  # [T]

    @staticmethod
    def of(translation: Translation, answer: Answer, terms: Sequence[Term]) -> _Words:
        text = answer.text
        attention = word_attention(translation.source, text, replace(translation, hypotheses=(answer,)))
        held = [place for place in places(terms, text) if place]
        words = attention.target
        free = [text[a].isalnum() and not any(c < b and a < d for c, d in held) for a, b in words]
        return _Words(text, attention, free)

    def place(self, term: Term) -> _Place | None:
        inside = [term.start <= start < term.end for start, _ in self.attention.source]
        share = np.where(self.free, self.attention.weights @ np.array(inside, np.float64), -1.0)
        if not any(self.free):
            return None
        own = [*(share > OWN), False, False]  # so that -1 and -2 are no words
        first = likeliest = last = int(share.argmax())
        while step := own[first - 1] or 2 * own[first - 2]:  # "dor de cabeça": one word may be between
            first -= int(step)
        while step := own[last + 1] or 2 * own[last + 2]:
            last += int(step)
        return _Place(first, likeliest, last)


def _decoded(
    job: Job, answer: Translation, words: _Words, place: _Place, term: Term, terms: Sequence[Term]
) -> Steps[Translation | None]:
    """The likeliest answer with a term that is decoded from its place on; None if none of them has it."""
    text, ranges = answer.text, words.attention.target
    given, heads = yield from _heads(job, answer, ranges, place)
    heads = heads[: max(1, MOST // len(term.forms))]
    again = re.compile(rf"\b{re.escape(text[slice(*ranges[place.likeliest])])}\b", re.I)
    often = len(again.findall(text, ranges[place.last][1]))

    def worth(way: tuple[str, Translation]) -> tuple[bool, float]:
        scores = way[1].token_scores
        return len(again.findall(way[1].text, given)) <= often, sum(scores) / max(1, len(scores))

    sound = list[tuple[str, Translation]]()
    for tail in dict.fromkeys(("", _next_word(text, ranges, place.last))):
        ways = [_written(head, form) + tail for head in heads for form in term.forms]
        found = yield [Job(job.text, job.changes | ONCE, Forced(way, given)) for way in ways]
        sound += [way for way in zip(ways, found, strict=True) if term not in lacking(terms, way[1].text)]
        if any(worth(way)[0] for way in sound):
            break  # else all say the old word again: continue with the word after it
    else:
        return None
    chosen, _ = max(sound, key=worth)
    (better,) = yield [Job(job.text, job.changes | {"return_scores": True}, Forced(chosen, given))]
    if term in lacking(terms, better.text):  # a beam may have gone on with the word
        return None
    return replace(better, hypotheses=tuple(_rescored(each, answer.hypotheses[0]) for each in better.hypotheses))


def _next_word(text: str, ranges: Sequence[tuple[int, int]], number: int) -> str:
    """The text after a word, up to the end of the next one that is no sign, or of all."""
    end = next((end for start, end in ranges[number + 1 :] if text[start].isalnum()), len(text))
    return text[ranges[number][1] : end]


def _heads(
    job: Job, answer: Translation, ranges: Sequence[tuple[int, int]], place: _Place
) -> Steps[tuple[int, list[str]]]:
    """Beginnings of an answer that a term may follow, and how many characters of it they share.

    They end before the words that translate the term, before its likeliest word, before the short word right before
    them, or after another one in its place.
    """
    text = answer.text
    first, likeliest = ranges[place.first][0], ranges[place.likeliest][0]
    given = ranges[place.first - 1][0] if place.first else 0
    if not re.fullmatch(rf"[^\W\d_]{{1,{SHORT}}}\s", text[given:first]):
        return first, list(dict.fromkeys([text[:first], text[:likeliest]]))
    length = sum(start < given for start, _ in piece_ranges(answer.tokens, text))
    lengths = {"min_length": 0, "max_length": length + 1, "forced_eos": False}
    several = {"beam_size": WORDS, "num_hypotheses": WORDS, **lengths}
    (others,) = yield [Job(job.text, job.changes | ONCE | several, Forced(text[:given], given))]
    rest = (each.text[given:].strip() for each in others.hypotheses if each.text.startswith(text[:given]))
    short = [f"{text[:given]}{word} " for word in rest if word.isalpha() and len(word) <= SHORT + 2]
    return given, list(dict.fromkeys([text[:first], text[:likeliest], text[:given], *short]))


def _written(head: str, form: str) -> str:
    """A form of a term after the beginning of a sentence; with a capital letter if it is the first word."""
    return head + (" " if head and head[-1].isalnum() else "") + _cased(head, form)


def _cased(head: str, form: str) -> str:
    return form if any(map(str.isalnum, head)) else form[:1].upper() + form[1:]


def _rescored(answer: Answer, before: Answer) -> Answer:
    """The answer with the scores of the one before it for what was given; without scores, if that has none."""
    if not before.token_scores:
        return replace(answer, score=None, log_prob=None, token_scores=())
    scores = list(answer.token_scores)
    for index, (token, other) in enumerate(zip(answer.tokens, before.tokens, strict=False)):
        if token != other or scores[index] != 0.0:
            break
        scores[index] = before.token_scores[index]
    total = sum(scores)
    ratio = total / answer.log_prob if answer.log_prob else 1.0
    score = None if answer.score is None else answer.score * ratio
    return replace(answer, score=score, log_prob=total, token_scores=tuple(scores))


def _replaced(translation: Translation, answer: Answer, terms: Sequence[Term], missing: Sequence[Term]) -> Answer:
    """The answer with each term that is `missing` instead of the words that attend most to it, or at the end."""
    if not missing:
        return answer
    words, changes, end = _Words.of(translation, answer, terms), list[Change](), len(answer.text)
    for term in missing:
        if place := words.place(term):
            first, last = (words.attention.target[number] for number in (place.first, place.last))
            changes.append(Change(first[0], last[1], _cased(answer.text[: first[0]], term.forms[0])))
            words.free[place.first : place.last + 1] = [False] * (place.last + 1 - place.first)
        else:
            changes.append(Change(end, end, " " * (end > 0) + term.forms[0]))
    return changed_answer(answer, sorted(changes, key=lambda change: change.start))
