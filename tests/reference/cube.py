"""Cube pruning of one request in plain Python, with sub-cubes and a heap as in the paper: slow and obvious."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np
from reference.beam import Beam, NextLogProbs, continuations, reference_search

from sharpbeam.options.decode import SearchOptions

Vector = Callable[[tuple[int, ...]], np.ndarray]  # tokens that the model was fed -> hidden vector [D]


def alike(a: np.ndarray, b: np.ndarray, options: SearchOptions) -> bool:
    return float(a @ b) >= options.merge_threshold * float(np.linalg.norm(a)) * float(np.linalg.norm(b))


def cube_items(
    running: list[Beam],
    next_log_probs: NextLogProbs,
    options: SearchOptions,
    eos_id: int,
    prefix: tuple[int, ...],
    vector: Vector | None,
) -> list[Beam]:
    """Candidates by cube pruning (CUBE section 3.4): sub-cubes, a heap of their items, its neighbors pushed."""
    ran = list(range(len(running)))  # for each row the one that was run in its place
    if options.merge_by in ("word", "both"):
        ran = [[other.tokens[-1:] for other in running].index(beam.tokens[-1:]) for beam in running]
    speaker = list(ran)  # for each row the one whose candidates it shares
    if options.merge_by in ("likeness", "both"):
        leaders: list[int] = []
        for row in sorted(set(ran)):
            mine = vector(running[row].fed)
            like = [leader for leader in leaders if alike(vector(running[leader].fed), mine, options)]
            leaders += [] if like else [row]
            speaker = [(like[0] if like else row) if r == row else s for r, s in zip(ran, speaker, strict=True)]
    cubes = {leader: [row for row in range(len(running)) if speaker[row] == leader] for leader in set(speaker)}
    columns = {
        leader: continuations(running[leader], lambda _: next_log_probs(running[leader].fed), options, eos_id, prefix)  # noqa: B023
        for leader in cubes
    }
    heap: list[tuple[float, int, int]] = []  # minus the score, row, column
    pushed: set[tuple[int, int]] = set()

    def push(row: int | None, column: int) -> None:
        if row is None or column >= len(columns[speaker[row]]) or (row, column) in pushed:
            return
        pushed.add((row, column))
        heapq.heappush(heap, (-(running[row].total + columns[speaker[row]][column].log_probs[-1]), row, column))

    for leader in cubes:
        push(leader, 0)
    items: list[Beam] = []
    exact, going = options.cube_pruning == "exact", 0
    while heap and len(items) < (2 * options.beam_size if options.beam_size > 1 else 1):
        if exact and going == options.beam_size:
            break
        _, row, column = heapq.heappop(heap)
        below = cubes[speaker[row]][cubes[speaker[row]].index(row) + 1 :]
        push(row, column + 1)
        push(below[0] if below else None, column)
        token = columns[speaker[row]][column].tokens[-1]
        value = columns[speaker[row]][column].log_probs[-1]
        if exact and speaker[row] != row:
            value = float(next_log_probs(running[row].fed)[token])
        beam, fed = running[row], running[row if exact else ran[row]].fed
        child = Beam((*beam.tokens, token), (*beam.log_probs, value), beam.total + value, fed=(*fed, token))
        items.append((row, column, child))
        going += token != eos_id
    items.sort(key=lambda item: item[:2])  # equal ones by row, then column
    return [beam for _, _, beam in items if beam.total > -np.inf]


def reference_cube(
    next_log_probs: NextLogProbs,
    options: SearchOptions,
    eos_id: int,
    prefix: tuple[int, ...] = (),
    vector: Vector | None = None,
) -> list[Beam]:
    """The finished hypotheses of one request; `vector` is needed for likeness."""

    def expand(running: list[Beam]) -> list[Beam]:
        return cube_items(running, next_log_probs, options, eos_id, prefix, vector)

    return reference_search(next_log_probs, options, eos_id, prefix, expand)
