"""Quality evidence as in CVP section 3.4: identical outputs, and how well the assessment finds a known difference.

Two output layers of one model are compared by `sharpbeam.compare`: the exact one, and the published screen of CVP. Then
blind sheets of the outputs that differ are filled by simulated annotators, whose scores have a known bias towards one
system, many times: the power of the signed-rank test at each bias, and its false alarms without one.
"""

from __future__ import annotations

import csv
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bench.flags import Data, Model, Models, Sentences
from bench.harness import record
from bench.harness.testset import DATA, NoDataError
from bench.harness.vectors import collect_layer
from bench.harness.with_screen import with_screen
from bench.papers.cvp.clusters import clustered
from bench.papers.l2s.subjects import MODELS, SUBJECTS, find_folder
from sharpbeam.report.assessment import KEY, SHEET, assess, write_sheets
from sharpbeam.report.compare import Comparison, compare

BIASES = (2.0, 5.0, 10.0)  # points of 100
SPREAD, ITEMS, TIMES, LEVEL = 20.0, 100, 100, 0.05  # of a score; items of a sheet; simulated sheets; significance


def fill(folder: Path, bias: float, draw: np.random.Generator) -> Path:
    """A sheet filled by an annotator who likes system B better by `bias` points."""
    with (folder / SHEET).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    key = json.loads((folder / KEY).read_text(encoding="utf-8"))["items"]
    b_side = {str(item["item"]): "right" if item["left"] == "A" else "left" for item in key}
    for row in rows:
        ease = draw.normal(60, SPREAD)
        for side in ("left", "right"):
            liked = bias if b_side[row["item"]] == side else 0.0
            row[f"{side}_score"] = f"{np.clip(ease + liked + draw.normal(0, SPREAD / 2), 0, 100):.1f}"
    filled = folder / "filled.csv"
    with filled.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return filled


def power(comparison: Comparison, bias: float, times: int) -> float:
    """The share of simulated sheets that the signed-rank test finds a difference in."""
    draw, found = np.random.default_rng(1), 0
    with tempfile.TemporaryDirectory() as work:
        write_sheets(comparison, work, ITEMS)
        for _ in range(times):
            filled = fill(Path(work), bias, draw)
            found += assess([filled], Path(work) / KEY).signed_rank_p < LEVEL
    return found / times


def measure(
    model: str, folder: Path, data: str, sentences: int, clusters: int, share: float, times: int = TIMES
) -> dict[str, Any]:
    """Compare, simulate and record."""
    subject = next(one for one in SUBJECTS if one.name == model)
    layer, pairs = collect_layer(subject, folder, data, share), subject.pairs(data, "test", sentences)
    sources, references = [source for source, _ in pairs], [reference for _, reference in pairs]
    screen = clustered(layer, clusters, (1,))[1]
    with with_screen(folder, screen, layer.weight, layer.bias) as screened:
        exact, own = (f"{screened.loaded.folder},output_layer={name}" for name in ("exact", "screen-alone"))
        comparison = compare(exact, own, sources, references)
    bleu = comparison.scores[0]
    figures = {
        "identical": round(comparison.identical, 5),
        "bleu": [round(bleu.a, 3), round(bleu.b, 3)],
        "p_value": round(bleu.p_value, 5),
        "power": {str(bias): power(comparison, bias, times) for bias in BIASES},
        "false_alarms": power(comparison, 0.0, times),
    }
    options = {"model": model, "sentences": len(pairs), "clusters": clusters, "k": 1, "fitted_on": len(layer.fit)}
    return record.write("assessment", figures, threads=1, options=options | {"items": ITEMS, "spread": SPREAD})


def main(data: Data = DATA, models: Models = list(MODELS), model: Model = "de-en", sentences: Sentences = 500) -> None:
    """Measure, print and record."""
    folder = find_folder(next(one for one in SUBJECTS if one.name == model), models)
    if folder is None:
        raise NoDataError(f"no model {model} below {', '.join(models)}")
    print(measure(model, folder, data, sentences, 400, 0.3))
