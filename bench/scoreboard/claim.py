"""A claim and its verdict, and the three ways to measure one: now, from the last figures, or not yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.harness import record


@dataclass(frozen=True)
class Settings:
    """How the claims of a part are to be measured."""

    data: str  # folder of the text
    model: str
    quick: bool  # fewer sentences and rounds, and no slow claim: under ten minutes for a part
    models: tuple[str, ...] = ()  # folders in which a part that is about several models looks for them


@dataclass(frozen=True)
class Verdict:
    """The outcome; `holds` is None where nothing was measured, and `figure` says why.

    `because` is the reason of a miss where one was measured (a floor, a profile, an experiment), with its line.
    """

    holds: bool | None
    figure: str
    because: str = ""

    @property
    def word(self) -> str:
        """`holds`, `misses` or `not measured`."""
        return "not measured" if self.holds is None else "holds" if self.holds else "misses"

    @property
    def explained(self) -> bool:
        """Whether it holds or misses for a reason that was measured."""
        return self.holds is True or bool(self.because)


@dataclass(frozen=True)
class Claim:
    """One promise: its number in the part's list, what it says, its target, and how it is measured.

    A target is the promise's own words, and is never reworded after a miss. A `slow` claim (minutes: the wheel, all
    tests) is not measured with QUICK=1.
    """

    number: str
    says: str
    target: str
    measure: Callable[[Settings], Verdict]
    slow: bool = False


def recorded(
    benchmark: str, judge: Callable[[dict[str, Any]], Verdict], **options: Any
) -> Callable[[Settings], Verdict]:
    """`measure` of a claim from the newest line of bench/results/BENCHMARK.jsonl whose options are `options`.

    `judge` makes a verdict of that line. Commit and date of the line are put after the figure, and a tree that had
    uncommitted changes is named. Without such a line the claim is not measured.
    """

    def measure(settings: Settings) -> Verdict:
        same = [line for line in record.read(benchmark) if options.items() <= line["options"].items()]
        if not same:
            asked = ", ".join(f"{name}={value}" for name, value in options.items())
            return Verdict(None, f"no line in bench/results/{benchmark}.jsonl" + (f" with {asked}" if asked else ""))
        line = same[-1]
        verdict = judge(line)
        changed = " with uncommitted changes" if line["dirty"] else ""
        figure = f"{verdict.figure} [{line['commit'][:7]}{changed}, {line['time'][:10]}]"
        return Verdict(verdict.holds, figure, verdict.because)

    return measure


def with_floor(measure: Callable[[Settings], Verdict], because: str) -> Callable[[Settings], Verdict]:
    """The same, with the reason of a miss: the floor that was measured."""

    def explained(settings: Settings) -> Verdict:
        found = measure(settings)
        return found if found.holds is not False else Verdict(False, found.figure, because)

    return explained


def pending(reason: str) -> Callable[[Settings], Verdict]:
    """`measure` of a claim that nothing measures yet, or that needs what is not here."""
    return lambda settings: Verdict(None, reason)
