"""The picture of a screen: fidelity against speed of all settings of its fit, and the sizes of its sets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sharpbeam.report.drawing import drawing

MOST_MISSES, LEAST_MISSES = 1.0, 1e-5  # share of rows, the ends of the axis


def draw_screen(report: Mapping[str, Any], path: Path) -> None:
    """Draw the report of `sharpbeam screen-report` to `path`, as PNG; raises SharpbeamError without Matplotlib."""
    with drawing(path, "a screen", (12, 4.5), columns=2) as (left, right):
        _curve(left, report)
        _histogram(right, report["sets"])
        left.figure.suptitle(f"{report['model']}: {report['method']}, {report['sets']['clusters']} clusters")


def _curve(axis: Any, report: Mapping[str, Any]) -> None:
    """Misses over the bytes that are saved: for each method and number of clusters, without and with its test."""
    groups: dict[str, list[dict[str, float]]] = {}
    for point in report["curve"]:
        groups.setdefault(f"{point['method']}, {point['clusters']} clusters", []).append(point["measure"])
    for i, (name, measures) in enumerate(sorted(groups.items())):
        color, order = f"C{i % 10}", sorted(measures, key=lambda m: m["average_set"])
        faster = [_faster(report, m["cost"]) for m in order]
        axis.plot(faster, [_misses(m["fidelity"]) for m in order], marker="o", color=color, label=name)
        if any(m["fallback"] for m in order):
            alone = [_faster(report, m["cost"] - m["fallback"] * report["scan_bytes"]) for m in order]
            axis.plot(alone, [_misses(m["agreement"]) for m in order], marker=".", linestyle=":", color=color)
    chosen = report["held_out"]
    if chosen:
        place = _faster(report, chosen["cost"]), _misses(chosen["fidelity"])
        axis.plot(*place, marker="*", markersize=16, color="black", linestyle="", label="chosen, held-out text")
    axis.set(
        xscale="log",
        yscale="log",
        ylim=(LEAST_MISSES / 2, MOST_MISSES * 2),
        xlabel="times fewer bytes than an int8 scan of all tokens",
        ylabel="share of rows that are not the exact top k",
        title="fit: with fallback (solid), alone (dotted)",
    )
    axis.grid(alpha=0.3)
    if groups:
        axis.legend(fontsize=7)


def _faster(report: Mapping[str, Any], cost: float) -> float:
    return float(report["scan_bytes"] / max(cost, 1.0))


def _misses(right: float) -> float:
    return max(1 - right, LEAST_MISSES)


def _histogram(axis: Any, sets: Mapping[str, Any]) -> None:
    names = [f"{least}-{most}" for least, most, _ in sets["histogram"]]
    axis.bar(names, [count for _, _, count in sets["histogram"]])
    axis.set(xlabel="tokens in a set", ylabel="clusters", title=f"sets: {sets['mean']:.0f} tokens on average")
    axis.tick_params(axis="x", rotation=45)
