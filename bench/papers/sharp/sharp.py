"""The ablation of SHARP (Table 1) on our engine: its five steps one after the other; words/s, factors.

One thread, one sentence at a time, beam 6, a lexical shortlist, stopping at a margin of 3.0. SHARP-0 gives the products
of the model to a BLAS in float32 (OpenBLAS of scipy-openblas32) and computes in plain loops what is no product; its
output layer is, as in every row, our own product in float32 over the shortlist.

Two things are told apart. The exact steps leave every number as it was but for the order of a few sums, so what is said
must stay the same; each is compared with the row before it. Plain loops compute in doubles, as the vectors do, so that
both round to the same floats but in some of 10,000 cases. Rounding to int16 and int8 may change what is said, and has
to keep BLEU. With rounded products SHARP-3 rounds other numbers, so it counts as exact in float32 only. The last rows
are beyond the paper, in the place of a shortlist: every word of the vocabulary, by `scan`, and the learned screen.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Collection
from typing import Annotated, Any

import typer

from bench.flags import Data, Model, Rounds
from bench.harness import record
from bench.harness.interleave import interleave
from bench.harness.testset import DATA, NEWS_TEST, TEST, german_english
from bench.harness.with_shortlist import listed
from bench.micro.gemm import blas
from bench.papers.l2s.screened_search import screened
from sharpbeam import MachineOptions, Translator
from sharpbeam.report.quality import quality

SEARCH: dict[str, Any] = {"beam_size": 6, "stop_margin": 3.0, "batch_tokens": 1}
WORDS = 8000  # k of SHARP-2
PAPER = {"SHARP-0": 1.0, "SHARP-1": 2.59, "SHARP-2": 3.25, "SHARP-3": 3.57, "SHARP-4": 4.06, "SHARP-5": 4.37}
SAYS = ("a BLAS, plain loops", "products of our own", "+ words kept", "+ sources kept", "+ vectors", "+ merged states")
BEYOND = {"scan": "+ all words", "screen": "+ a learned screen"}  # output layers in the place of the shortlist
BASELINE = "SHARP-0"
ROUNDED = ("int16", "int8")
SETS = {"tatoeba": TEST, "newstest2013": NEWS_TEST}
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
    options: dict[str, Any] = {"threads": 1, "compute_type": "blas", "isa": "plain", "merge_states": False}
    changes: tuple[dict[str, Any], ...] = (
        {"precomputed_embeddings": WORDS},
        {"precomputed_attention": True},
        {"isa": "auto"},
        {"merge_states": True},
    )
    rows = {BASELINE: Step(SAYS[0], MachineOptions(**options))}
    for kind in ("float32", *ROUNDED):
        now, before = options | {"compute_type": kind}, f"SHARP-1 {kind}"
        rows[before] = Step(SAYS[1], MachineOptions(**now), like=BASELINE if kind == "float32" else None)
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
    os.environ |= {"SHARPBEAM_BLAS": str(blas()), "OPENBLAS_NUM_THREADS": "1"}
    rows = steps(beyond)
    translators = {
        step: Translator(folders.get(row.output_layer, folders["shortlist"]), machine=row.machine)
        for step, row in rows.items()
    }

    def run(step: str, sources: list[str]) -> list[str]:
        answers = translators[step].translate(sources, output_layer=rows[step].output_layer, **SEARCH)
        return [answer.text for answer in answers]

    said = _judge(run, rows, *german_english(data, judged, SETS[name]))
    sources, _ = german_english(data, sentences, SETS[name])

    def contender(step: str) -> Callable[[], list[str]]:
        return lambda: run(step, sources)

    timed = {step: contender(step) for step, row in rows.items() if row.timed}
    timings = interleave(timed, BASELINE, rounds, lambda _: None)
    words = sum(len(source.split()) for source in sources)
    for step, timing in timings.items():
        said[step] |= {k: round(v, 4) for k, v in dataclasses.asdict(timing).items()}
        said[step] |= {"words_per_second": round(words / timing.median_s, 1), "paper": PAPER.get(step.split()[0])}
    options = {"model": model, "set": name, "sentences": len(sources), "rounds": rounds, "judged": judged}
    return record.write("sharp", {"baseline": BASELINE, "steps": said}, threads=1, options=options | SEARCH)


def _judge(
    run: Callable[[str, list[str]], list[str]], rows: dict[str, Step], sources: list[str], references: list[str]
) -> dict[str, dict[str, Any]]:
    """BLEU of each row, and the shares of its outputs that SHARP-0 and the row that it must be like say too."""
    texts: dict[str, list[str]] = {}
    said: dict[str, dict[str, Any]] = {}
    for step, row in rows.items():
        texts[step] = run(step, sources)

        def same(other: str, mine: list[str] = texts[step]) -> float:
            return round(sum(a == b for a, b in zip(texts[other], mine, strict=True)) / len(sources), 5)

        said[step] = {"says": row.says, "bleu": round(quality(texts[step], references).bleu, 3)}
        said[step] |= {"same": same(BASELINE), "same_as_like": same(row.like) if row.like else None}
        far = abs(said[step]["bleu"] - said[BASELINE]["bleu"])
        if row.output_layer == "shortlist" and far > BLEU_DISTANCE:
            raise DisagreementError(f"{step} disagrees: {said}")
    return said


def least_same(line: dict[str, Any]) -> float:
    """The least share of outputs that an exact step left as they were."""
    return min(float(row["same_as_like"]) for row in line["steps"].values() if row["same_as_like"] is not None)


def bleu_moved(line: dict[str, Any]) -> float:
    """The most that an exact step moves BLEU from that of the row before it."""
    bleu = {step: float(row["bleu"]) for step, row in line["steps"].items()}
    return max(abs(bleu[step] - bleu[row.like]) for step, row in steps(()).items() if row.like)


def bleu_off(line: dict[str, Any]) -> float:
    """The most that BLEU of a row of the paper's table lies off SHARP-0's, for which rounding is to blame."""
    bleu = {step: float(row["bleu"]) for step, row in line["steps"].items() if step.startswith("SHARP")}
    return max(abs(found - bleu[BASELINE]) for found in bleu.values())


def describe(line: dict[str, Any]) -> str:
    """The table, for people."""
    options = line["options"]
    head = f"{options['set']}, {options['sentences']} sentences ({options['judged']} judged), beam 6, one at a time"
    rows = [head]
    for step, found in line["steps"].items():
        like = "" if found["same_as_like"] is None else f", {found['same_as_like']:.2%} as the row before"
        row = f"  {step:<16} {found['says']:<20} BLEU {found['bleu']:.2f}, {found['same']:.2%} as SHARP-0{like}"
        if "ratio" in found:
            paper = f"; paper x{found['paper']:.2f}" if found["paper"] else ""
            row += (
                f"  {found['words_per_second']:>6.0f} words/s  x{found['ratio']:.2f} "
                f"({found['least_ratio']:.2f}-{found['most_ratio']:.2f}{paper})"
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
) -> None:
    """Measure, print and record."""
    for name in sets:
        chosen = (sentences, rounds, judged)
        print(describe(ablation(model, data, name, *chosen)), flush=True)
