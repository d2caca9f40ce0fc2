"""Sentences to translations: each distinct one is decoded once, judged by the guards, and decoded again if need be."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from sharpbeam.contract.sentences import Contract, sentence_steps
from sharpbeam.contract.steps import Job, Steps, together
from sharpbeam.decoding.results import EMPTY, Translation
from sharpbeam.documents.guards import Attempt, Verdict, attempts, check, check_translation
from sharpbeam.text.flags import Flag
from sharpbeam.text.spans import find_spans

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Decoded:
    """A sentence: ranges of it in order, the translation of each, and what the guards say."""

    parts: tuple[tuple[Range, Translation], ...]
    verdict: Verdict = Verdict()  # noqa: RUF009 (frozen)
    repaired: bool = False  # the first answer was unsound, and another one took its place
    sentences: bool = False  # the parts are sentences

    @property
    def badness(self) -> tuple[int, bool, float]:
        """The lower, the better."""
        return len(self.verdict.flags), not self.sentences, self.verdict.missing

    @staticmethod
    def whole(text: str, translation: Translation, verdict: Verdict | None = None) -> Decoded:
        """A sentence that was decoded as one."""
        return Decoded((((0, len(text)), translation),), verdict or Verdict())


def kept(text: str) -> Decoded:
    """A text that is its own translation."""
    return Decoded.whole(text, Translation(text, (replace(EMPTY, text=text),)))


def decode_steps(
    fixed: Mapping[str, Collection[str]],
    attended: Collection[str],
    guarded: bool,
    contract: Contract,
) -> Steps[dict[str, Decoded]]:
    """Decode distinct sentences, with attention those that are `attended` or guarded, where the model has it.

    `fixed` has their parts that are not translated, besides protected spans.
    """
    attention = {"return_attention": True}

    def steps(job: Job, text: str) -> Steps[Translation]:
        pattern = re.compile("|".join(map(re.escape, fixed[text]))) if fixed[text] else None
        return sentence_steps(job.text, find_spans(job.text, pattern), replace(contract, changes=job.changes))

    jobs = [Job(text, attention if contract.attends and (guarded or text in attended) else {}) for text in fixed]
    answers = dict(zip(fixed, (yield from together(list(map(steps, jobs, fixed)))), strict=True))
    if not guarded:
        return {text: Decoded.whole(text, answer) for text, answer in answers.items()}
    found = {text: Decoded.whole(text, answer, check_translation(answer)) for text, answer in answers.items()}
    tried = {
        text: ways
        for text, first in found.items()
        if first.verdict.flags and (ways := list(attempts(text, first.verdict, contract.attends, contract.language)))
    }
    again = [steps(job, text) for text, ways in tried.items() for way in ways for job in way.jobs]
    new = iter((yield from together(again)))
    for text, ways in tried.items():
        others = [other for way in ways for other in _candidates(way, [next(new) for _ in way.jobs])]
        best = min([found[text], *others], key=lambda one: one.badness)
        found[text] = best if best is found[text] else replace(best, repaired=True)
    return found


def _candidates(way: Attempt, answers: Sequence[Translation]) -> list[Decoded]:
    """The answers of an attempt: each hypothesis of one that was decoded as a whole."""
    if len(answers) > 1:
        verdicts = [check_translation(answer) for answer in answers]
        flags: dict[Flag, None] = {flag: None for verdict in verdicts for flag in verdict.flags}
        worst = Verdict(tuple(flags), max(verdict.missing for verdict in verdicts))
        return [Decoded(tuple(zip(way.ranges, answers, strict=True)), worst, sentences=way.sentences)]
    (answer,) = answers
    found = []
    for hypothesis in answer.hypotheses:
        verdict = check(answer.source, hypothesis, answer.source_tokens, answer.truncated)
        found.append(Decoded(((way.ranges[0], replace(answer, hypotheses=(hypothesis,))),), verdict))
    return found
