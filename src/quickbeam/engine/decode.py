"""The loop: the only place that knows model, projection, search and schedule."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from quickbeam.models.door import Decoding
from quickbeam.projections.door import Projection
from quickbeam.schedule.door import Schedule
from quickbeam.search.door import Search
from quickbeam.types import Hypothesis, Rows


def decode(
    model: Decoding, projection: Projection, search: Search, schedule: Schedule
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Run until the schedule is out of work; yields (request index, its hypotheses, best first) as they are done."""
    layer, rows = projection.open(), Rows.empty()
    while schedule.busy:
        if entering := schedule.refill():
            state = model.admit(entering)
            layer.admit(entering)
            rows = rows.extend(search.begin([request.index for request in entering], state))
        rows = schedule.select(rows)
        run = search.plan(rows)
        hidden, run.state = model.step(run.request, run.state, run.token)  # [R, D], [R]
        top = layer.topk(hidden, search.candidates, run.request)  # [R, k]
        move = search.advance(rows, top)
        rows = schedule.apply(move)
        model.retain(rows.state)
        if move.finished:
            done = np.array(list(move.finished), np.int32)
            model.evict(done)
            layer.evict(done)
            yield from move.finished.items()
