"""One row of a paper's table as a claim: judged by the newest lines of benchmarks, its miss explained by others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bench.harness import record
from bench.scoreboard.claim import Claim, Settings, Verdict

Line = dict[str, Any]
Judge = Callable[..., Verdict]
Because = Callable[..., str]
Wanted = tuple[str, dict[str, Any]]  # a benchmark, and options or names of its line


def found(benchmark: str, **options: Any) -> list[Line]:
    """The lines of a benchmark with these options, or whose figures are named so at the top; oldest first."""
    return [x for x in record.read(benchmark) if options.items() <= (x["options"] | _names(x)).items()]


def _names(line: Line) -> dict[str, Any]:
    return {key: line[key] for key in ("setting",) if key in line}


def by_option(benchmark: str, option: str, **options: Any) -> list[Line]:
    """The newest line for each value of `option`, in the order of the values."""
    newest = {line["options"][option]: line for line in found(benchmark, **options) if option in line["options"]}
    return [newest[value] for value in sorted(newest)]


def commits(lines: Sequence[Line]) -> str:
    """The commits of lines in brackets; a star where the tree was changed."""
    names = sorted({str(line["commit"])[:7] + ("*" if line["dirty"] else "") for line in lines})
    return f" [{', '.join(names)}]"


def with_commits(said: str, lines: Sequence[Line]) -> str:
    """A text with the commits of the lines after it; one that names its own, or is empty, stays."""
    return said if not said or said.endswith("]") else said + commits(lines)


def row(
    number: str,
    says: str,
    target: str,
    judge: Judge,
    *wanted: Wanted,
    because: Because | None = None,
    by: Sequence[Wanted] | None = None,
) -> Claim:
    """A claim judged by the newest line of each of `wanted`; not measured where one is missing.

    A miss is explained by `because` from the newest line of each of `by`, or of the same lines; where one of them is
    missing it is not.
    """

    def measure(settings: Settings) -> Verdict:
        verdict = _judged(judge, wanted)
        if verdict.holds or because is None:
            return verdict
        reasons = [found(benchmark, **options) for benchmark, options in (wanted if by is None else by)]
        if not all(reasons):
            return verdict
        lines = [same[-1] for same in reasons]
        try:
            said = because(*lines)
        except (KeyError, StopIteration, IndexError):  # lines from before the figure was recorded
            return verdict
        return Verdict(verdict.holds, verdict.figure, with_commits(said, lines))

    return Claim(number, says, target, measure)


def _judged(judge: Judge, wanted: Sequence[Wanted]) -> Verdict:
    lines = []
    for benchmark, options in wanted:
        same = found(benchmark, **options)
        if not same:
            return Verdict(None, f"no line in bench/results/{benchmark}.jsonl with {options}")
        lines.append(same[-1])
    try:
        verdict = judge(*lines)
    except (KeyError, StopIteration) as error:  # a line from before the figure was recorded
        return Verdict(None, f"the newest lines have no {error}; measure again")
    return Verdict(verdict.holds, with_commits(verdict.figure, lines))
