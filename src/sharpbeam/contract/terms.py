"""Terms of a glossary in answers: a term that lacks takes the place of the words that attend most to its source.

The answer is decoded again from that place on, with the article right before it and with its other forms ("o nome" for
"a palavra"). The likeliest answer that has the term, and not the old word again, counts. Where there is none, the words
are replaced and nothing else. Terms that are decoded add nothing to the score, as a target prefix.

Constraints in the search (Post & Vilar 2018) let the model choose the place, which often takes the wrong one: a term
that it would not say itself is improbable everywhere (docs/lab/guards.md).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sharpbeam.contract.answers import Change, changed_answer
from sharpbeam.contract.sentences import Contract, bare
from sharpbeam.contract.steps import Job, R, Steps, together
from sharpbeam.contract.words import WordAttention, word_attention
from sharpbeam.decoding.inputs import Forced
from sharpbeam.decoding.results import Answer, Translation
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.options.schema import require
from sharpbeam.text.glossary import Term, article_forms, joined_at, lacking, places, spaceless

MOST = 16  # ways that are tried for one term
ROUNDS, LONGEST = 6, 128  # terms for which a text is decoded again, and tokens that it may have; others replace words
ONCE: dict[str, Any] = {
    "beam_size": 1,
    "num_hypotheses": 1,
    "patience": 1.0,
    "coverage_penalty": 0.0,
    "return_scores": True,
    "return_attention": False,
}
OWN = 0.5  # of its attention a word gives to a term that it translates
_REFUSED = {
    "sampling": False,
    "cube_pruning": "none",
    "return_alternatives": False,
    "prefix_bias_beta": 0.0,
    "search": "beam",
}


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
    hopeless: list[Term] = []
    for _ in terms[:ROUNDS]:
        missing = [term for term in lacking(terms, answer.text) if term not in hopeless][:MOST]
        if not missing or len(answer.tokens) > LONGEST:
            break
        words = _Words.of(answer, answer.hypotheses[0], terms)
        found = [(place, term) for term in missing if (place := words.place(term))]
        if not found:
            break
        place, term = min(found, key=lambda each: each[0])  # what is before it stays from here on
        better = yield from _decoded(job, answer, words, place, term)
        hopeless += [] if better else [term]
        answer = better or answer
    return replace(answer, hypotheses=tuple(_replaced(answer, each, terms) for each in answer.hypotheses))


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

    attention: WordAttention
    free: NDArray[np.bool_]  # [T]
    starts: NDArray[np.intp]  # [S] of the words of the source

    @staticmethod
    def of(translation: Translation, answer: Answer, terms: Sequence[Term]) -> _Words:
        text = answer.text
        attention = word_attention(translation.source, text, replace(translation, hypotheses=(answer,)))
        free = np.array([text[start].isalnum() for start, _ in attention.target], bool)
        begins, ends = (np.array([word[side] for word in attention.target], np.intp) for side in (0, 1))
        for place in filter(None, places(terms, text)):
            free[np.searchsorted(ends, place[0], "right") : np.searchsorted(begins, place[1])] = False
        return _Words(attention, free, np.array([start for start, _ in attention.source], np.intp))

    def place(self, term: Term) -> _Place | None:
        if not self.free.any():
            return None
        first, end = np.searchsorted(self.starts, (term.start, term.end))
        share = np.where(self.free, self.attention.weights[:, first:end].sum(1), -1.0)
        own = [*(share > OWN), False, False]  # so that -1 and -2 are no words
        may = [*self.free, False]
        first = likeliest = last = int(share.argmax())
        while step := own[first - 1] or 2 * (may[first - 1] and own[first - 2]):  # "dor de cabeça": a word between
            first -= int(step)
        while step := own[last + 1] or 2 * (may[last + 1] and own[last + 2]):
            last += int(step)
        return _Place(first, likeliest, last)


def _decoded(job: Job, answer: Translation, words: _Words, place: _Place, term: Term) -> Steps[Translation | None]:
    """The likeliest answer with a term that is decoded from its place on; None if none of them has it."""
    text, ranges = answer.text, words.attention.target
    given, heads = _heads(text, ranges, place)
    starts = [_written(text, head, form) for head in heads for form in term.forms][:MOST]
    after = text[ranges[place.last][1] :]
    again = re.compile(rf"\b{re.escape(text[slice(*ranges[place.likeliest])])}\b", re.I)
    often = len(again.findall(after))

    def sound(start: str, found: Translation) -> bool:
        rest = found.text[len(start) :]
        whole = any(map(str.isalnum, rest)) or not any(map(str.isalnum, after))
        same = found.text.startswith(start) and not joined_at(found.text, len(start))
        return whole and same and len(again.findall(rest)) <= often

    for tail in dict.fromkeys(("", _next_word(text, ranges, place.last))):
        found = yield [Job(job.text, job.changes | ONCE, Forced(start + tail, given)) for start in starts]
        pairs = [pair for pair in zip(starts, found, strict=True) if sound(*pair)]
        if pairs:  # else all say the old word again, or no more: continue with the word after it
            break
    else:
        return None
    chosen, _ = max(pairs, key=lambda pair: sum(pair[1].token_scores) / max(1, len(pair[1].token_scores)))
    begin = Forced(chosen + tail, len(chosen + tail))
    (better,) = yield [Job(job.text, job.changes | {"return_scores": True}, begin)]
    if not sound(chosen, better):  # a beam may have continued the word
        return None
    return replace(better, hypotheses=tuple(_rescored(each, answer.hypotheses[0]) for each in better.hypotheses))


def _next_word(text: str, ranges: Sequence[tuple[int, int]], number: int) -> str:
    """The text after a word, up to the end of the next one that is no sign, or of all."""
    end = next((end for start, end in ranges[number + 1 :] if text[start].isalnum()), len(text))
    return text[ranges[number][1] : end]


def _heads(text: str, ranges: Sequence[tuple[int, int]], place: _Place) -> tuple[int, list[str]]:
    """How many characters the answers share, and what may be before a term.

    These are the words before those that translate the term, with the other forms of an article right before it; and
    those before its likeliest word.
    """
    first, likeliest = ranges[place.first][0], ranges[place.likeliest][0]
    given = ranges[place.first - 1][0] if place.first else 0
    article = text[given:first].rstrip()
    forms = article_forms(article) if len(article) < first - given else []
    heads = [text[:first], text[:likeliest], *(f"{text[:given]}{form} " for form in forms)]
    return given if forms else first, list(dict.fromkeys(heads))


def _written(text: str, head: str, form: str) -> str:
    """A form of a term after the beginning of an answer; as its first word in the case of that."""
    gap = head[-1:].isalnum() and not spaceless(head[-1]) and not spaceless(form[0])
    first, own = re.search(r"\w", text), re.match(r"\w+", form)
    large = not any(map(str.isalnum, head)) and first and first[0].isupper() and own and own[0].islower()
    return head + " " * gap + (form[:1].upper() + form[1:] if large else form)


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


def _replaced(translation: Translation, answer: Answer, terms: Sequence[Term]) -> Answer:
    """The answer with each term that it lacks instead of the words that attend most to it, or at the end."""
    missing, text = lacking(terms, answer.text), answer.text
    if not missing:
        return answer
    words, changes = _Words.of(translation, answer, terms), list[Change]()
    for term in missing:
        if place := words.place(term):
            start, end = words.attention.target[place.first][0], words.attention.target[place.last][1]
            changes.append(Change(start, end, _written(text, text[:start], term.forms[0])[start:]))
            words.free[place.first : place.last + 1] = False
        else:
            gap = " " * (bool(text) and not spaceless(text[-1]))
            changes.append(Change(len(text), len(text), gap + term.forms[0]))
    return changed_answer(answer, sorted(changes, key=lambda change: change.start))
