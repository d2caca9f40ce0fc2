"""What paper L2S asks of its method: speed over the vocabulary (Figure 8) and the number of clusters (Table 4), and the
gain over the spherical k-means that it starts from, at equal budgets (Table 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from benchmarks import record
from benchmarks.methods import BASELINE, own
from benchmarks.precision import Point, measure
from benchmarks.screens import Fit, Hits, cheapest, cluster, hits, screen_at
from benchmarks.vectors import K, Layer

VOCABULARIES, QUICK_VOCABULARIES = (2000, 4000, 6000, 8000, 10_000), (2000, 10_000)
CLUSTERS, QUICK_CLUSTERS = (50, 100, 200, 250, 500), (50, 200)
BUDGETS, QUICK_BUDGETS = (25, 50, 100), (50,)
VOCABULARY_CLUSTERS, BUDGET_CLUSTERS = 200, 100
PAPER_P_AT_1, PAPER_P_AT_5 = 0.99, 0.98  # about where the paper's Figure 8 was measured
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
            "budget": equal_budgets(layer, QUICK_BUDGETS if quick else BUDGETS),
        },
        threads=1,
        options={"model": layer.name, "k": K, "rounds": ROUNDS, "quick": quick, "fitted_on": len(layer.fit)},
    )
    draw(line, record.RESULTS / f"studies-{layer.name}.png")
    return line


def over_vocabulary(layer: Layer, sizes: Sequence[int]) -> list[Point]:
    """The output layer cut to the most frequent words: the screen's speed-up grows with the vocabulary."""
    found = []
    for size in sizes:
        small = layer.restricted(min(size, len(layer.bias)))
        clusters = cluster(small, "kmeans", VOCABULARY_CLUSTERS)
        found.append({"vocab": size} | _point(small, cheapest(small, clusters, PAPER_P_AT_1, PAPER_P_AT_5)))
    return found


def over_clusters(layer: Layer, numbers: Sequence[int]) -> list[Point]:
    """The cheapest sets of good precision for numbers of clusters, by k-means (L2S would take minutes for each)."""
    found = []
    for number in numbers:
        found.append(_point(layer, cheapest(layer, cluster(layer, "kmeans", number))))
    return found


def _point(layer: Layer, fit: Fit) -> Point:
    """Precision and speed of one screen."""
    *_, point = measure([own(layer, [])[0], *own(layer, [fit])[-1:]], layer.test, ROUNDS, SECONDS)
    return point


def equal_budgets(layer: Layer, budgets: Sequence[int]) -> list[dict[str, Any]]:
    """k-means, spherical k-means and L2S with sets of equal size on the vectors that were fitted on (claim 4)."""
    found = []
    still = {method: cluster(layer, method, BUDGET_CLUSTERS) for method in METHODS if method != "l2s"}
    for budget in budgets:
        clusterings = still | {"l2s": cluster(layer, "l2s", BUDGET_CLUSTERS, budget)}
        there = {
            method: hits(screen_at(one, budget), layer.test, len(layer.bias)) for method, one in clusterings.items()
        }
        found.append(
            {"budget": budget, "clusters": BUDGET_CLUSTERS}
            | {method: _figures(one) for method, one in there.items()}
            | {f"gain_over_{m}": gain(there["l2s"], there[m]) for m in METHODS if m != "l2s"}
        )
    return found


def _figures(found: Hits) -> dict[str, float]:
    names = ("p_at_1", "p_at_5", "all_five", "average_set")
    return {name: round(float(getattr(found, name)), 5) for name in names}


def gain(better: Hits, worse: Hits) -> dict[str, float]:
    """Difference in P@5 over the same rows, and the half width of its 95% interval (rows as if independent)."""
    difference = (better.found - worse.found) / K
    return {
        "p_at_5": round(float(difference.mean()), 6),
        "plus_minus": round(float(1.96 * difference.std() / np.sqrt(len(difference))), 6),
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
