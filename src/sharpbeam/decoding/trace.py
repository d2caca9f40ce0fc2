"""The record of one search, step by step, for people who ask why it said what it said."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from sharpbeam.decoding.inputs import requests_of
from sharpbeam.decoding.lanes import beam_lane
from sharpbeam.decoding.loading import LoadedModel
from sharpbeam.decoding.loop import decode
from sharpbeam.decoding.results import Answer, hypothesis_answer
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.scheduling.plan import Plan
from sharpbeam.search.interface import Choice, Outcome
from sharpbeam.search.native import NativeSearch

MARKS = {"lives": "+", "finished": "=", "width": " ", "threshold": "<", "banned": "x"}
LEGEND = "+ lives     = finished   (blank) no place on the beam   < below the threshold   x not allowed"
SHOWN = 60  # characters of a hypothesis that are shown


@dataclass(frozen=True, slots=True)
class Candidate:
    """One of the best candidates of a step."""

    row: int  # the row of this step that it continues
    piece: str
    log_prob: float  # of the piece, by the model
    score: float  # sum of the hypothesis with it
    outcome: Outcome
    next_row: int | None  # its row in the next step, if it lives


@dataclass(slots=True)
class Row:
    """A live hypothesis."""

    pieces: tuple[str, ...]
    score: float
    group: int  # cube pruning: rows with one number share the candidates of the first one


@dataclass(slots=True)
class Step:
    """The rows of one step, best first, and the best candidates of all of them together."""

    rows: list[Row]
    candidates: list[Candidate] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Trace:
    """One search."""

    source: str
    pieces: tuple[str, ...]  # of the source, as the model reads them
    steps: list[Step]
    why: str  # it stopped
    answers: tuple[Answer, ...]
    beam_size: int

    def record(self) -> dict[str, Any]:
        """The trace as JSON has it: None in the place of -inf, which JSON cannot write."""
        record = dataclasses.asdict(self)
        for step in record["steps"]:
            for candidate in step["candidates"]:
                for name in ("log_prob", "score"):
                    candidate[name] = None if candidate[name] == -math.inf else candidate[name]
        return record

    def summary(self) -> str:
        """For people: the candidates of each step with their outcomes, and the answers."""
        lines = [self.source, " ".join(self.pieces), "", f"beam {self.beam_size}; {LEGEND}"]
        for number, step in enumerate(self.steps, 1):
            lines += ["", f"step {number}{_groups(step)}"]
            for candidate in step.candidates:
                so_far = " ".join((*step.rows[candidate.row].pieces, candidate.piece))
                shown = so_far if len(so_far) <= SHOWN else "…" + so_far[1 - SHOWN :]
                mark = MARKS[candidate.outcome]
                lines.append(f" {mark} {candidate.score:9.3f} {candidate.log_prob:8.3f}  {shown}")
        lines += ["", f"stopped after step {len(self.steps)}: {self.why}"]
        return "\n".join(lines + [f"{answer.score:9.3f}  {answer.text}" for answer in self.answers])


def _groups(step: Step) -> str:
    """The rows in brackets by what they share, where cube pruning merged some."""
    groups: dict[int, list[str]] = {}
    for place, row in enumerate(step.rows, 1):
        groups.setdefault(row.group, []).append(str(place))
    merged = len(groups) < len(step.rows)
    return ": rows " + " ".join(f"[{' '.join(rows)}]" for rows in groups.values()) if merged else ""


class Recorder:
    """Writes down the search of one request: `search.interface.Observer`."""

    def __init__(self, piece: Callable[[int], str]) -> None:
        """`piece` gives the text of a token."""
        self._piece = piece
        self.steps = [Step([Row((), 0.0, 0)])]
        self.why = ""

    def merged(self, request: int, groups: Sequence[int]) -> None:
        """Note which rows share their candidates."""
        numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
        for row, group in zip(self.steps[-1].rows, groups, strict=True):
            row.group = numbers[group]

    def advanced(self, request: int, choices: Sequence[Choice]) -> None:
        """Note the candidates, and begin the next step with those that live."""
        now, rows = self.steps[-1], list[Row]()
        for choice in choices:
            piece, lives = self._piece(choice.token), choice.outcome == "lives"
            place = len(rows) if lives else None
            now.candidates.append(Candidate(choice.row, piece, choice.log_prob, choice.score, choice.outcome, place))
            if lives:
                rows.append(Row((*now.rows[choice.row].pieces, piece), choice.score, len(rows)))
        self.steps.append(Step(rows))

    def stopped(self, request: int, why: str) -> None:
        """Note the reason; the rows that never took their step are no step."""
        self.why = why
        self.steps.pop()


def trace(loaded: LoadedModel, text: str, target_prefix: str | None, options: DecodeOptions) -> Trace:
    """The record of the beam search of one text or prompt; raises OptionError for another search than a beam's.

    Raises InputError for an empty text.
    """
    options = options.changed(return_scores=True)
    requests, lane = requests_of(loaded, [text], target_prefix, options), beam_lane(loaded, options, "a trace")
    search, recorder = cast(NativeSearch, lane.search()), Recorder(loaded.target.piece)
    search.watch(recorder)
    schedule = Plan(requests, options.schedule, options.search.most_rows, 1, loaded.footprint).schedule()
    ((_, hypotheses),) = decode(loaded.model.open(), lane.usable, search, schedule)
    pieces = tuple(loaded.source.piece(token) for token in requests[0].source.tolist())
    answers = tuple(hypothesis_answer(loaded.target, hypothesis) for hypothesis in hypotheses)
    return Trace(text, pieces, recorder.steps, recorder.why, answers, options.search.beam_size)
