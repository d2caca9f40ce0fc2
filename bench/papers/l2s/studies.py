"""Studies of paper L2S: speed over the vocabulary (Figure 8) and the number of clusters (Table 4), and the
gain over the spherical k-means that it starts from, at equal budgets (Table 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from bench.harness import record
from bench.harness.precision import Point, measure
from bench.harness.vectors import K, Layer
from bench.papers.l2s.methods import BASELINE, own
from bench.papers.l2s.screens import Fit, Hits, cheapest, cluster, hits, screen_at

VOCABULARIES, QUICK_VOCABULARIES = (2000, 4000, 6000, 8000, 10_000), (2000, 10_000)
CLUSTERS, QUICK_CLUSTERS = (50, 100, 200, 250, 500), (50, 200)
BUDGETS, QUICK_BUDGETS = (25, 50, 100), (50,)
VOCABULARY_CLUSTERS, BUDGET_CLUSTERS = 200, 100
PAPER_P_AT_1, PAPER_P_AT_5 = 0.99, 0.98  # about where the paper's Figure 8 was measured
SEEDS, QUICK_SEEDS = (1, 2, 3), (1,)
ROUNDS, SECONDS = 5, 0.3
METHODS = ("kmeans", "spherical", "l2s")


def study(layer: Layer, quick: bool) -> dict[str, Any]:
    """Vocabulary, clusters and budget of one layer, recorded and drawn."""
    line = record.write(
        "studies",
        {
            "baseline": BASELINE,
            "vocabulary": over_vocabulary(layer, QUICK_VOCABULARIES if quick else VOCABULARIES),
            "clusters": over_clusters(layer, QUICK_CLUSTERS if quick else CLUSTERS),
            "budget": equal_budgets(layer, QUICK_BUDGETS if quick else BUDGETS, quick)["budgets"],
        },
        threads=1,
        options={"model": layer.name, "k": K, "rounds": ROUNDS, "quick": quick, "fitted_on": len(layer.fit)},
    )
    draw(line, record.RESULTS / f"studies-{layer.name}.png")
    return line


def over_vocabulary(layer: Layer, sizes: Sequence[int]) -> list[Point]:
    """The output layer cut to the most frequent words: the screen's speed-up grows with the vocabulary."""
    points = []
    for size in sizes:
        small = layer.restricted(min(size, len(layer.bias)))
        clusters = cluster(small, "kmeans", VOCABULARY_CLUSTERS)
        points.append({"vocab": size} | _point(small, cheapest(small, clusters, PAPER_P_AT_1, PAPER_P_AT_5)))
    return points


def over_clusters(layer: Layer, numbers: Sequence[int]) -> list[Point]:
    """The cheapest sets of good precision for numbers of clusters, by k-means (L2S would take minutes for each)."""
    points = []
    for number in numbers:
        points.append(_point(layer, cheapest(layer, cluster(layer, "kmeans", number))))
    return points


def _point(layer: Layer, fit: Fit) -> Point:
    """Precision and speed of one screen."""
    *_, point = measure([own(layer, [])[0], *own(layer, [fit])[-1:]], layer.test, ROUNDS, SECONDS)
    return point


def equal_budgets(layer: Layer, budgets: Sequence[int], quick: bool) -> dict[str, Any]:
    """k-means, spherical k-means and L2S with sets of equal size on the vectors that were fitted on (claim 4).

    Each is fitted anew with every seed, and L2S starts from the spherical k-means of its seed; recorded.
    """
    seeds, points = QUICK_SEEDS if quick else SEEDS, []
    still = {(m, seed): cluster(layer, m, BUDGET_CLUSTERS, seed=seed) for m in METHODS if m != "l2s" for seed in seeds}
    for budget in budgets:
        learned = {("l2s", seed): cluster(layer, "l2s", BUDGET_CLUSTERS, budget, seed) for seed in seeds}
        there = {
            key: hits(screen_at(one, budget), layer.test, len(layer.bias)) for key, one in (still | learned).items()
        }
        by_method = {method: [there[method, seed] for seed in seeds] for method in METHODS}
        points.append(
            {"budget": budget, "clusters": BUDGET_CLUSTERS}
            | {method: _figures(runs) for method, runs in by_method.items()}
            | {f"gain_over_{m}": gain(by_method["l2s"], by_method[m]) for m in METHODS if m != "l2s"}
        )
    options = {"model": layer.name, "k": K, "seeds": seeds, "quick": quick, "fitted_on": len(layer.fit)}
    return record.write("equal_budgets", {"budgets": points}, threads=1, options=options)


def _figures(runs: Sequence[Hits]) -> dict[str, float]:
    """Means over the seeds."""
    names = ("p_at_1", "p_at_5", "all_five", "average_set")
    return {name: round(float(np.mean([getattr(one, name) for one in runs])), 5) for name in names}


def gain(better: Sequence[Hits], worse: Sequence[Hits]) -> dict[str, Any]:
    """Difference in P@5 over the same rows, of each seed and on average.

    The half width of its 95% interval takes rows as if independent, with their means over the seeds.
    """
    difference = np.stack([(one.right - other.right) / K for one, other in zip(better, worse, strict=True)])
    rows = difference.mean(axis=0)
    return {
        "p_at_5": round(float(rows.mean()), 6),
        "plus_minus": round(float(1.96 * rows.std() / np.sqrt(len(rows))), 6),
        "of_each_seed": [round(float(one), 6) for one in difference.mean(axis=1)],
    }


def draw(line: dict[str, Any], path: Path) -> None:
    """Three panels."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(15, 4.5))
    for axis, key, label in ((left, "vocabulary", "words"), (middle, "clusters", "clusters")):
        points = line[key]
        places = [point["vocab"] if key == "vocabulary" else point["dial"]["clusters"] for point in points]
        axis.plot(places, [point["ratio"] for point in points], marker="o")
        for place, point in zip(places, points, strict=True):
            axis.annotate(f"P@1 {point['p_at_1']:.3f}", (place, point["ratio"]), fontsize=7)
        axis.set(xlabel=label, ylabel=f"times faster than the full softmax in {BASELINE}", ylim=(0, None))
    for method in METHODS:
        places = [(point[method]["average_set"], 1 - point[method]["p_at_5"]) for point in line["budget"]]
        right.plot(
            *zip(*places, strict=True), marker="o", label={"l2s": "L2S", "kmeans": "k-means"}.get(method, method)
        )
    right.set(xlabel="words in a set", ylabel="1 - P@5", yscale="log", title=f"{BUDGET_CLUSTERS} clusters")
    right.legend()
    for axis in (left, middle, right):
        axis.grid(alpha=0.3)
    figure.suptitle(f"{line['options']['model']}: held-out text")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
