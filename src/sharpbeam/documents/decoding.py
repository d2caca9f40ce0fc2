"""Sentences to translations: each distinct one is decoded once, judged by the guards, and decoded again if need be."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from sharpbeam.decoding.results import EMPTY, Translation
from sharpbeam.documents.guards import Attempt, Flag, Verdict, attempts, check, check_translation
from sharpbeam.documents.job import Job, Steps

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
    texts: Sequence[str], attended: Collection[str], guarded: bool, attends: bool = True, language: str = ""
) -> Steps[dict[str, Decoded]]:
    """Decode distinct sentences, with attention those that are `attended` or guarded, where the model has it."""
    attention = {"return_attention": True}
    jobs = [Job(text, attention if attends and (guarded or text in attended) else {}) for text in texts]
    answers = dict(zip(texts, (yield jobs) if jobs else (), strict=True))
    if not guarded:
        return {text: Decoded.whole(text, answer) for text, answer in answers.items()}
    found = {text: Decoded.whole(text, answer, check_translation(answer)) for text, answer in answers.items()}
    tried = {
        text: ways
        for text, first in found.items()
        if first.verdict.flags and (ways := list(attempts(text, first.verdict, attends, language)))
    }
    again = [job for ways in tried.values() for way in ways for job in way.jobs]
    new = iter((yield again) if again else ())
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
