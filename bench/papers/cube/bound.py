"""Rows that an exact cube pruning would have to run, as shares of those that beam search runs.

A log probability is at most 0, so a row below the score of the last candidate that beam search takes (the bar) leads to
none that is taken. Where no more is known, all others have to run: `reached`, those at the bar that all rows give, or
above it. `parents` have a child among what is taken: to run only these, one would have to know the answer. `ran` and
`calls` are of a way that can be had: as many of the best rows as reached the last bar, then, in a second call of the
model, those that reach the bar which these give. Counts do not depend on the machine.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from bench.harness import record
from bench.papers.cube.bench import WrongAnswerError
from sharpbeam import Translator, register_search
from sharpbeam._core import LayerRun, ModelRun
from sharpbeam.search.beam import BeamSearch
from sharpbeam.search.interface import Forward
from sharpbeam.search.registry import SearchInputs
from sharpbeam.types import Floats, Ids, Rows, StepResult, TopK

NAME = "beam search, its rows counted"
COUNTS: Counter[str] = Counter()  # of all runs of this process


class Watched:
    """A forward pass that keeps the candidates of its last step."""

    native: tuple[ModelRun, LayerRun] | None = None
    layer: LayerRun | None = None
    reason, whole = "its rows are counted", False

    def __init__(self, forward: Forward) -> None:
        self._forward, self.step, self.log_prob = forward, forward.step, forward.log_prob
        self.found: TopK

    def topk(self, hidden: Floats, k: int, request: Ids) -> TopK:
        """Those of the forward pass."""
        self.found = self._forward.topk(hidden, k, request)
        return self.found


class CountingSearch(BeamSearch):
    """Beam search, which also counts the rows that a step needed."""

    def __init__(self, run: SearchInputs) -> None:
        """A search of one decoding run."""
        super().__init__(run.options.search, run.bos_id, run.eos_id, run.vocab_size)
        self._width, self._eos, self._last = run.options.search.beam_size, run.eos_id, run.options.search.max_length
        self._reached: dict[int, int] = {}  # rows of a request's last step

    def step(self, rows: Rows, forward: Forward) -> StepResult:
        """One step; raises WrongAnswerError if the rows that it returns are not those that are counted."""
        watched = Watched(forward)
        result = super().step(rows, watched)
        scores = rows.score[:, None] + watched.found.log_prob.astype(np.float64)
        for request in dict.fromkeys(rows.request.tolist()):
            own = rows.request == request
            cut = int(rows.length[own][0]) + 1 >= self._last
            live = self._count(request, rows.score[own], scores[own], watched.found.token[own] == self._eos, cut)
            kept = result.rows.score[result.rows.request == request].tolist()
            if kept and kept != live:
                raise WrongAnswerError(f"request {request}: other rows live on than those that were counted")
        return result

    def _count(self, request: int, rows: Floats, scores: Floats, eos: Ids, cut: bool) -> list[float]:
        """The scores of the rows that live on; `rows` [R] and `scores` [R, k] are of a request, best rows first."""
        bar, taken = self._taken(scores, eos, cut)
        reached, guess = int((rows >= bar).sum()), self._reached.get(request, len(rows))
        ran, calls = min(max(guess, 1), len(rows)), 1
        if ran < len(rows):
            wanted = int((rows >= self._taken(scores[:ran], eos[:ran], cut)[0]).sum())
            ran, calls = max(ran, wanted), 1 + (wanted > ran)
        self._reached[request] = reached if len(rows) > 1 else self._width
        parents = len(set((taken // scores.shape[1]).tolist()))
        COUNTS.update(steps=1, rows=len(rows), reached=reached, parents=parents, ran=ran, calls=calls)
        return [] if cut else scores.ravel()[taken[~eos.ravel()[taken]]].tolist()

    def _taken(self, scores: Floats, eos: Ids, cut: bool) -> tuple[float, Ids]:
        """The score of the last candidate that is taken (-inf while places are free), and the places of all."""
        order = np.argsort(-scores, axis=None, kind="stable")[: 2 * self._width]
        order = order[scores.ravel()[order] > -np.inf]
        ends = eos.ravel()[order] | cut
        places = np.flatnonzero(ends if cut else ~ends)[: self._width]
        last = int(places[-1]) if len(places) == self._width else len(order) - 1
        bar = float(scores.ravel()[order[last]]) if len(places) == self._width else -np.inf
        finished = ends & (np.arange(len(order)) < self._width)
        return bar, order[: last + 1][(finished | ~ends)[: last + 1]]


register_search(NAME, CountingSearch)


def measure(model: str, sources: list[str], name: str, beam: int) -> dict[str, Any]:
    """Shares of the rows of beam search over a set of this name, with the exact layer; recorded."""
    options = {"model": model, "set": name, "sentences": len(sources), "beam_size": beam}
    if earlier := record.find("cube_bound", options):
        return earlier
    before = Counter(COUNTS)
    Translator(model).translate(sources, raw=True, search=NAME, output_layer="exact", beam_size=beam)
    count = COUNTS - before
    figures = {key: round(count[key] / count["rows"], 4) for key in ("reached", "parents", "ran")}
    figures |= {"rows_per_step": round(count["rows"] / count["steps"], 2)}
    figures |= {"calls": round(count["calls"] / count["steps"], 3)}
    return record.write("cube_bound", figures, threads=1, options=options)


def describe(line: dict[str, Any]) -> str:
    """One measurement, for people."""
    options = line["options"]
    return (
        f"{options['model']}, {options['set']}, beam {options['beam_size']}: of {line['rows_per_step']:.1f} rows "
        f"{line['reached']:.1%} reach the bar, {line['parents']:.1%} have a child; run {line['ran']:.1%} "
        f"in {line['calls']:.2f} calls a step"
    )
