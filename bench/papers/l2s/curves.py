"""Precision against speed of every output layer over its dial, on held-out hidden vectors of each model.

`python -m bench papers.l2s.curves` measures every model that it finds; for each a line goes to results/curves.jsonl
and a
picture is drawn (L2S Figures 2 to 7 and 9). `--studies` adds what the paper asks of the small model: speed over the
size of the vocabulary (Figure 8), over the number of clusters (Table 4) and over the budget.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import matplotlib
import typer

from bench.flags import Data, Models
from bench.harness import record
from bench.harness.precision import Point, measure
from bench.harness.prepare import Prepared, prepare_all
from bench.harness.testset import DATA
from bench.harness.vectors import K
from bench.papers.l2s.methods import BASELINE, others, own
from bench.papers.l2s.screens import P_AT_1, P_AT_5
from bench.papers.l2s.subjects import MODELS, SUBJECTS, Subject, find_folder, present

ROUNDS, QUICK_ROUNDS = 7, 5
SECONDS, QUICK_SECONDS = 1.0, 0.3  # that the precision of one setting may take
OURS = ("exact", "scan", "proven")


def curve(prepared: Prepared, quick: bool, only: Sequence[str] = ()) -> dict[str, Any]:
    """Measure, record and draw one model; returns the line."""
    layer = prepared.layer
    contenders = own(layer, prepared.fits) + others(layer, quick, list(only), print)
    rounds, seconds = (QUICK_ROUNDS, QUICK_SECONDS) if quick else (ROUNDS, SECONDS)
    points = measure(contenders, layer.test, rounds, seconds)
    vocab, width = layer.weight.shape
    options = {"model": layer.name, "vocab": vocab, "width": width, "k": K, "rounds": rounds, "quick": quick}
    options |= {"fitted_on": len(layer.fit), "held_out": len(layer.test)}
    line = record.write("curves", {"baseline": BASELINE, "points": points}, threads=1, options=options)
    draw(line, record.RESULTS / f"curves-{layer.name}.png")
    return line


def reaches(point: Point) -> bool:
    """Whether a point has the precision that is asked for."""
    return bool(point["p_at_1"] >= P_AT_1 and point["p_at_5"] >= P_AT_5)


def represent(points: Sequence[Point], method: str) -> Point | None:
    """The fastest setting of a method that reaches the precision, or else the most precise one."""
    there = [point for point in points if point["method"] == method]
    good = [point for point in there if reaches(point)]
    if good:
        return max(good, key=lambda point: point["ratio"])
    return max(there, key=lambda point: (point["p_at_5"], point["p_at_1"]), default=None)


def draw(line: dict[str, Any], path: Path) -> None:
    """Speed-up over the baseline (log) against P@1 and P@5: a curve for each method, a star for each of our layers."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    groups: dict[str, list[Point]] = {}
    for point in line["points"]:
        groups.setdefault(point["method"], []).append(point)
    figure, axes = pyplot.subplots(1, 2, figsize=(13, 5.5), sharey=True)
    for axis, (key, label) in zip(axes, (("p_at_1", "P@1"), ("p_at_5", "P@5")), strict=True):
        for name, points in groups.items():
            places = sorted((point[key], point["ratio"]) for point in points)
            style = {"marker": "o", "markersize": 4} if len(points) > 1 else {"marker": "*", "markersize": 13}
            axis.plot(*zip(*places, strict=True), label=name, linestyle="-" if len(points) > 1 else "", **style)
        axis.set(xlabel=label, yscale="log", xlim=(0.75, 1.005))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel(f"times faster than the full softmax in {BASELINE}")
    axes[1].legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    options = line["options"]
    figure.suptitle(f"{options['model']}: {options['vocab']} x {options['width']}; one thread, one row at a time")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def table(line: dict[str, Any], subject: Subject) -> str:
    """L2S Table 2 for one model: the paper's figures next to ours."""
    paper = subject.paper
    points, options = line["points"], line["options"]
    head = f"{subject.name}, {options['vocab']} x {options['width']}"
    rows = [
        f"{head:<26}{'P@1':>8}{'P@5':>8}{'us':>9}{'speed-up':>10} (least-most)     "
        f"{f'paper ({paper.name})' if paper else ''}"
    ]
    for method in dict.fromkeys(point["method"] for point in points):
        point = represent(points, method)
        assert point is not None
        name = {"l2s": "L2S", "kmeans": "k-means"}.get(method, method)
        text = (
            f"  {name:<24}{point['p_at_1']:8.4f}{point['p_at_5']:8.4f}{point['us']:9.1f}{point['ratio']:9.2f}x "
            f"{'({:.2f}-{:.2f})'.format(point['least_ratio'], point['most_ratio']):<16}"
        )
        if paper and name in paper.rows:
            text += " x{} P@1 {} P@5 {}".format(*paper.rows[name])
        dial = ", ".join(f"{key} {value}" for key, value in point["dial"].items())
        rows.append(f"{text:<96} {dial}; {point['rows']} rows")
    return "\n".join(rows)


def main(
    data: Data = DATA,
    models: Models = list(MODELS),
    model: Annotated[list[str], typer.Option(help="only this one; may be repeated")] = [],
    method: Annotated[list[str], typer.Option(help="only this method of others; may be repeated")] = [],
    quick: Annotated[bool, typer.Option(help="fewer vectors, settings and rounds")] = False,
    studies: Annotated[bool, typer.Option(help="vocabulary, clusters and budget of lm-ptb-small")] = False,
) -> None:
    """Measure, print and record."""
    everyone = [present(subject, models) for subject in SUBJECTS]
    chosen = [subject for subject in everyone if not model or subject.name in model]
    places = [(subject, find_folder(subject, models)) for subject in chosen]
    for subject, place in places:
        if place is None:
            print(f"{subject.name} is missing: not in {', '.join(models)}", file=sys.stderr)
    present_models = [(subject, place) for subject, place in places if place is not None]
    for prepared in prepare_all(present_models, data, quick):
        print(table(curve(prepared, quick, method), prepared.subject), flush=True)
        if studies and prepared.subject.name == "lm-ptb-small":
            from bench.papers.l2s.studies import study

            study(prepared.layer, quick)
