"""The ablation of SHARP (Table 1) on our engine: its five steps one after the other; words/s, factors.

One thread, one sentence at a time, beam 6, a lexical shortlist, stopping at a margin of 3.0. SHARP-0 multiplies by the
fastest float32 matmul of one to six rows that can be had here, which is our own (`papers.sharp.blas`), and computes in
float loops as the compiler builds them what is no matmul. The output layer of
each row is our own float32 matmul over the shortlist.

As in the paper every row is judged against SHARP-0, quantization included: 99.9% of the outputs the same, and BLEU
within 0.02. Next to it stands the share that is as in the row before, for steps that round nothing. Also recorded: the
share of distinct parents in the beam (SHARP-5; paper: about 70%). The last rows are beyond the paper, in the place of a
shortlist: every token of the vocabulary, by `scan`, and a screen.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Sequence
from typing import Annotated, Any

import numpy as np
import typer

from bench.flags import Data, Model, Rounds
from bench.harness import record
from bench.harness.interleave import interleave
from bench.harness.parts import with_parts
from bench.harness.testset import DATA, test_pairs
from bench.harness.with_shortlist import listed
from bench.papers.l2s.screened_search import screened
from bench.papers.l2s.subjects import MODELS
from bench.papers.sharp import table2
from bench.papers.sharp.blas import measure as fastest_matmul
from sharpbeam import MachineOptions, Translator
from sharpbeam.models.interface import Decoding
from sharpbeam.report.quality import quality
from sharpbeam.types import Floats, Ids, Request

SEARCH: dict[str, Any] = {"beam_size": 6, "stop_margin": 3.0, "batch_tokens": 1}
WORDS = 8000  # k of SHARP-2
PAPER = {"SHARP-0": 1.0, "SHARP-1": 2.59, "SHARP-2": 3.25, "SHARP-3": 3.57, "SHARP-4": 4.06, "SHARP-5": 4.37}
SAYS = ("float32, plain loops", "matmuls in", "+ words kept", "+ sources kept", "+ vectors", "+ merged states")
BEYOND = {"scan": "+ all words", "screen": "+ a k-means screen"}  # output layers in the place of the shortlist
BASELINE = "SHARP-0"
SAME, BLEU_WITHIN = 0.999, 0.02  # what the paper says of every row against SHARP-0
ROUNDED = ("int16", "int8")
SETS = "tatoeba", "newstest2013"
BLEU_DISTANCE = 3.0  # no time is printed where BLEU lies further off: few sentences differ by one or two by chance


class DisagreementError(Exception):
    """A step changes what is said, so its time means nothing."""


@dataclasses.dataclass(frozen=True)
class Step:
    """A row of the table."""

    says: str
    machine: MachineOptions
    output_layer: str = "shortlist"
    like: str | None = None  # the row that differs by an exact step only
    timed: bool = True


def steps(beyond: Collection[str] = tuple(BEYOND)) -> dict[str, Step]:
    """The rows by name: SHARP-0, the others in float32 (not all are timed), int16 and int8, and layers `beyond`."""
    options: dict[str, Any] = {"threads": 1, "compute_type": "float32", "isa": "plain", "merge_states": False}
    changes: tuple[dict[str, Any], ...] = (
        {"precomputed_embeddings": WORDS},
        {"precomputed_attention": True},
        {"isa": "auto"},
        {"merge_states": True},
    )
    rows = {BASELINE: Step(SAYS[0], MachineOptions(**options))}
    for kind in ("float32", *ROUNDED):
        now, before = options | {"compute_type": kind}, BASELINE if kind == "float32" else f"SHARP-1 {kind}"
        if kind in ROUNDED:
            rows[before] = Step(f"{SAYS[1]} {kind}", MachineOptions(**now))
        for says, (name, change) in zip(SAYS[2:], zip(list(PAPER)[2:], changes, strict=True), strict=True):
            now = now | change
            exact = kind == "float32" or "precomputed_attention" not in change
            like, before = before if exact else None, f"{name} {kind}"
            rows[before] = Step(says, MachineOptions(**now), like=like, timed=kind in ROUNDED)
    for output_layer in beyond:
        rows[output_layer] = Step(BEYOND[output_layer], rows["SHARP-5 int8"].machine, output_layer)
    return rows


def ablation(
    model: str,
    data: str,
    name: str,
    sentences: int,
    rounds: int,
    judged: int,
    quick: bool = False,
    beyond: Collection[str] = tuple(BEYOND),
) -> dict[str, Any]:
    """The table on one test set: factors and words/s on `sentences`, BLEU and what stays the same on `judged` of them.

    A screen is fitted on fewer vectors where it is to be `quick`. Returns what it records.
    """
    folders = {"shortlist": listed(model, data)}
    folders |= {"screen": screened(model, data, quick)} if "screen" in beyond else {}
    rows = steps(beyond)
    translators = {
        step: Translator(folders.get(row.output_layer, folders["shortlist"]), machine=row.machine)
        for step, row in rows.items()
    }

    def run(step: str, sources: list[str]) -> list[str]:
        answers = translators[step].translate(sources, output_layer=rows[step].output_layer, **SEARCH)
        return [answer.text for answer in answers]

    figures = _judge(run, rows, *test_pairs(data, judged, name))
    sources, _ = test_pairs(data, sentences, name)

    def contender(step: str) -> Callable[[], list[str]]:
        return lambda: run(step, sources)

    timed = {step: contender(step) for step, row in rows.items() if row.timed}
    timings = interleave(timed, BASELINE, rounds, lambda _: None, time.process_time)
    words = sum(len(source.split()) for source in sources)
    for step, timing in timings.items():
        figures[step] |= {k: round(v, 4) for k, v in dataclasses.asdict(timing).items()}
        figures[step] |= {"words_per_second": round(words / timing.median_s, 1), "paper": PAPER.get(step.split()[0])}
    parents = distinct_parents(translators[BASELINE], sources)
    options = {"model": model, "set": name, "sentences": len(sources), "rounds": rounds, "judged": judged}
    line = {"baseline": BASELINE, "steps": figures, "distinct_parents": parents}
    return record.write("sharp", line, threads=1, options=options | SEARCH)


class _Counted(Decoding):
    """A decoding run that counts the distinct states that its rows continue."""

    def __init__(self, run: Decoding) -> None:
        self._run, self.distinct, self.rows = run, 0, 0

    def admit(self, requests: Sequence[Request]) -> Ids:
        return self._run.admit(requests)

    def step(self, request: Ids, state: Ids, token: Ids) -> tuple[Floats, Ids]:
        if len(state) > 1:
            self.distinct, self.rows = self.distinct + len(np.unique(state)), self.rows + len(state)
        return self._run.step(request, state, token)

    def retain(self, state: Ids) -> None:
        self._run.retain(state)

    def evict(self, request: Ids) -> None:
        self._run.evict(request)


class _Watched:
    """A model whose runs are counted."""

    def __init__(self, model: Any) -> None:
        self._model, self.runs = model, list[_Counted]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def open(self) -> _Counted:
        self.runs.append(_Counted(self._model.open()))
        return self.runs[-1]


def distinct_parents(translator: Translator, sources: list[str]) -> float:
    """The share of the rows of the beam's steps that continue a state which no other row continues, or the first."""
    watched = _Watched(translator.loaded.model)
    with with_parts(translator, model=watched):
        translator.translate(sources, output_layer="exact", **SEARCH)
    return round(sum(run.distinct for run in watched.runs) / sum(run.rows for run in watched.runs), 4)


def _judge(
    run: Callable[[str, list[str]], list[str]], rows: dict[str, Step], sources: list[str], references: list[str]
) -> dict[str, dict[str, Any]]:
    """BLEU of each row, and the shares of its outputs that SHARP-0 and the row that it must be like say too."""
    texts: dict[str, list[str]] = {}
    figures: dict[str, dict[str, Any]] = {}
    for step, row in rows.items():
        texts[step] = run(step, sources)

        def same(other: str, mine: list[str] = texts[step]) -> float:
            return round(sum(a == b for a, b in zip(texts[other], mine, strict=True)) / len(sources), 5)

        figures[step] = {"says": row.says, "bleu": round(quality(texts[step], references).bleu, 3)}
        figures[step] |= {"same": same(BASELINE), "same_as_like": same(row.like) if row.like else None}
        far = abs(figures[step]["bleu"] - figures[BASELINE]["bleu"])
        if row.output_layer == "shortlist" and far > BLEU_DISTANCE:
            raise DisagreementError(f"{step} disagrees: {figures}")
    return figures


def describe(line: dict[str, Any]) -> str:
    """The table, for people."""
    options = line["options"]
    head = f"{options['set']}, {options['sentences']} sentences ({options['judged']} judged), beam 6, one at a time"
    rows = [f"{head}; {line['distinct_parents']:.1%} of the parents are distinct (paper: about 70%)"]
    for step, one in line["steps"].items():
        like = "" if one["same_as_like"] is None else f", {one['same_as_like']:.2%} as the row before"
        row = f"  {step:<16} {one['says']:<20} BLEU {one['bleu']:.2f}, {one['same']:.2%} as SHARP-0{like}"
        if "ratio" in one:
            paper = f"; paper x{one['paper']:.2f}" if one["paper"] else ""
            row += (
                f"  {one['words_per_second']:>6.0f} words/s  x{one['ratio']:.2f} "
                f"({one['least_ratio']:.2f}-{one['most_ratio']:.2f}{paper})"
            )
        rows.append(row)
    return "\n".join(rows)


def main(
    data: Data = DATA,
    model: Model = "de-en",
    sets: list[str] = list(SETS),
    sentences: Annotated[int, typer.Option(help="timed, of each set, at equal distances; 0 = all")] = 100,
    rounds: Rounds = 5,
    judged: Annotated[int, typer.Option(help="of each set, for BLEU and what stays the same; 0 = all")] = 1000,
    part: Annotated[str, typer.Option(help="steps (Table 1), blas (the fastest matmul) or models (Table 2)")] = "steps",
) -> None:
    """Measure, print and record."""
    if part == "blas":
        print("fastest:", fastest_matmul(rounds)["fastest"])
        return
    if part == "models":
        print(table2.describe(table2.measure(MODELS, data, "int8", sentences, rounds)))
        return
    for name in sets:
        chosen = (sentences, rounds, judged)
        print(describe(ablation(model, data, name, *chosen)), flush=True)
