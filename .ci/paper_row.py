"""A row of a paper's table, its verdict, and settings of output layers against the paper's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from result_lines import Line, select

HOLDS, MISSES, AGAIN, NEVER = "holds", "misses", "to be measured again", "not measured"
Reading = tuple[str, bool | None, list[Line]]


@dataclass(frozen=True)
class Verdict:
    """The outcome of a row, and the lines that it is from."""

    figure: str
    word: str
    used: Sequence[Line] = ()


@dataclass(frozen=True)
class Row:
    """A system of a paper, what the paper reports, and how ours is read."""

    id: str
    system: str
    figure: str
    read: Callable[[], Reading]

    def judge(self) -> Verdict:
        """The verdict; a row without lines is not measured, one whose lines lack the figure is to be measured again."""
        try:
            figure, holds, used = self.read()
        except (LookupError, StopIteration):
            return Verdict("", NEVER)
        return Verdict(figure, AGAIN if holds is None else HOLDS if holds else MISSES, used)


def last(benchmark: str, **options: object) -> Line:
    """The newest line with these options; IndexError without one."""
    return select(benchmark, **options)[-1]


def pair(point: Line) -> str:
    """Speed and precision of a setting."""
    speed = f"{point['ratio']:.1f}" if point["ratio"] >= 0.1 else f"{point['ratio']:.2f}"
    return f"x{speed} at {point['p_at_1']:.4f}/{point['p_at_5']:.4f}"


def fastest(points: list[Line], method: str, one: float, five: float) -> Line | None:
    """The fastest setting of a method with these precisions."""
    good = [p for p in points if p["method"] == method and p["p_at_1"] >= one and p["p_at_5"] >= five]
    return max(good, key=lambda p: float(p["ratio"]), default=None)


def best(points: list[Line], method: str, speed: float, one: float, five: float, used: list[Line]) -> Reading:
    """A method against the paper's speed at the paper's precision; if it never has it, its most precise setting."""
    point = fastest(points, method, one, five)
    if point:
        return pair(point), point["ratio"] >= speed, used
    own = [p for p in points if p["method"] == method]
    if not own:
        raise LookupError(method)
    return f"at most {pair(max(own, key=lambda p: float(p['p_at_5'])))}", False, used
