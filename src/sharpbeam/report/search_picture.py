"""The picture of one search: a column for each step, the best candidates from the top down, and what became of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sharpbeam.decoding.trace import Candidate, Trace
from sharpbeam.report.drawing import drawing

COLORS = {"lives": "#dbe9f6", "finished": "#c7e9c0", "width": "#eeeeee", "threshold": "#fdd0a2", "banned": "#fcbba1"}
MEANING = {
    "lives": "lives",
    "finished": "finished",
    "width": "no place on the beam",
    "threshold": "below the threshold",
    "banned": "not allowed",
}


def draw_search(trace: Trace, path: Path) -> None:
    """Draw `trace` to `path`, as PNG; raises SharpbeamError without Matplotlib."""
    deepest = max(len(step.candidates) for step in trace.steps)
    size = (min(2 + 1.35 * len(trace.steps), 120), min(2 + 0.3 * deepest, 60))
    with drawing(path, "a search", size, dpi=110) as axis:
        _draw(axis, trace, deepest)


def _draw(axis: Any, trace: Trace, deepest: int) -> None:
    from matplotlib.patches import Patch

    best = _best_path(trace)
    for number, step in enumerate(trace.steps):
        for place, candidate in enumerate(step.candidates):
            _draw_candidate(axis, trace, number, place, candidate, (number, place) in best)
    axis.set_xlim(-0.6, len(trace.steps) - 0.3)
    axis.set_ylim(deepest - 0.3, -0.9)
    axis.set_xticks(range(len(trace.steps)), [str(number + 1) for number in range(len(trace.steps))])
    axis.set_xlabel("step")
    axis.set_yticks([])
    axis.set_ylabel("candidates, best first")
    axis.set_title(f"{trace.source}\n{trace.answers[0].text}\nstopped: {trace.why}", fontsize=9)
    seen = {candidate.outcome for step in trace.steps for candidate in step.candidates}
    handles = [Patch(color=COLORS[outcome], label=meaning) for outcome, meaning in MEANING.items() if outcome in seen]
    axis.legend(handles=handles, loc="upper left", bbox_to_anchor=(0, -0.12), ncols=5, fontsize=7, frameon=False)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)


def _draw_candidate(axis: Any, trace: Trace, number: int, place: int, candidate: Candidate, best: bool) -> None:
    """A box with the piece and its score, and a line from the candidate that it continues."""
    if number > 0:
        parent = next(i for i, c in enumerate(trace.steps[number - 1].candidates) if c.next_row == candidate.row)
        strong = candidate.outcome in ("lives", "finished")
        color, width = ("#08519c", 1.6) if best else ("#6baed6" if strong else "#d9d9d9", 0.8 if strong else 0.4)
        axis.plot([number - 0.62, number - 0.38], [parent, place], color=color, linewidth=width, zorder=1)
    axis.text(
        number,
        place,
        # A dollar would begin a formula.
        f"{candidate.piece} {candidate.score:.2f}".replace("$", r"\$"),
        ha="center",
        va="center",
        fontsize=7,
        fontweight="bold" if best else "normal",
        bbox={"boxstyle": "round,pad=0.2", "facecolor": COLORS[candidate.outcome], "edgecolor": "none"},
    )


def _best_path(trace: Trace) -> set[tuple[int, int]]:
    """Step and place of the candidates that the best answer is made of."""
    pieces = trace.answers[0].tokens
    path: set[tuple[int, int]] = set()
    rows = [0]
    for number, step in enumerate(trace.steps):
        row = rows[-1]
        for place, candidate in enumerate(step.candidates):
            so_far = (*step.rows[candidate.row].pieces, candidate.piece)
            ends = candidate.outcome == "finished" and so_far[: len(pieces)] == pieces and len(so_far) >= len(pieces)
            goes_on = candidate.next_row is not None and so_far == pieces[: number + 1]
            if candidate.row == row and (ends or goes_on):
                path.add((number, place))
                if candidate.next_row is None:
                    return path
                rows.append(candidate.next_row)
                break
    return path
