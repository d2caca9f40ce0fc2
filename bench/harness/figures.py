"""`python -m bench.harness.figures`: rows for the README's table, of output layers, from the last results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.harness import record
from bench.papers.l2s.curves import reaches, represent
from bench.papers.l2s.methods import BASELINE
from bench.papers.l2s.subjects import SUBJECTS
from bench.scoreboard.output_layer import SCREENS, SEARCHES

NAMES = {"l2s": "L2S", "kmeans": "k-means"}


def last(benchmark: str) -> dict[str, dict[str, Any]]:
    """The last line of a benchmark for each model; those of full runs win over quick ones."""
    lines = sorted(record.read(benchmark), key=lambda line: not line["options"].get("quick", False))
    return {line["options"]["model"]: line for line in lines}


def rows() -> Iterator[str]:
    """Markdown rows; a model without results has none."""
    curves, proven, searched, texts = map(last, ("curves", "proven", "screened_search", "perplexity"))
    for subject in SUBJECTS:
        name = subject.name
        if name in curves:
            yield _speed(name, curves[name])
        if name in proven:
            yield _proven(name, proven[name])
        if name in searched:
            yield _searched(name, searched[name])
        if name in texts:
            yield _perplexity(name, texts[name])


def _speed(name: str, line: dict[str, Any]) -> str:
    points, options = line["points"], line["options"]
    shape = f"{options['vocab']:,} x {options['width']}"
    exact = ", ".join(f"`{m}` x{represent(points, m)['ratio']:.1f}" for m in ("exact", "scan", "certified"))  # type: ignore[index]
    good = [point for point in points if point["method"] in SCREENS and reaches(point)]
    screen = "no screen reaches P@1 .998 and P@5 .99"
    if good:
        best = max(good, key=lambda point: point["ratio"])
        screen = (
            f"`screen` ({NAMES.get(best['method'], best['method'])}) x{best['ratio']:.0f} "
            f"({best['least_ratio']:.0f} to {best['most_ratio']:.0f}) at P@1 {best['p_at_1']:.4f}, "
            f"P@5 {best['p_at_5']:.4f}"
        )
    others = [(m, represent(points, m)) for m in SEARCHES]
    rivals = ", ".join(f"{m} x{p['ratio']:.1f} at P@5 {p['p_at_5']:.4f}" for m, p in others if p)
    return f"| {name}, {shape}, one row, against the full softmax in {BASELINE} | {exact}; {screen}; {rivals} |"


def _perplexity(name: str, line: dict[str, Any]) -> str:
    full, screen, tail = (line["completed"][method]["perplexity"] for method in ("full", "l2s", "l2s with a tail"))
    options = line["options"]
    return (
        f"| {name}, perplexity of {options['words']:,} test words | {full:.2f} exact, {screen:.2f} on the L2S screen "
        f"with logits of rank {options['rank']} outside, {tail:.2f} with a tail |"
    )


def _proven(name: str, line: dict[str, Any]) -> str:
    wrong = sum(line["differences"].values())
    speeds = "; ".join(
        f"x{times['certified']['over_scan']:.2f} over `scan` at {rows} rows"
        for rows, times in line.get("times", {}).items()
    )
    return f"| {name}, `certified` against `exact`, {line['vectors']:,} vectors | {wrong} differences; {speeds} |"


def _searched(name: str, line: dict[str, Any]) -> str:
    quality, times = line["quality"]["test, beam 5"], line["times"]["beam 5"]
    layer = times["exact"]["layer_ms"] / times["screen"]["layer_ms"]
    return (
        f"| {name}, beam 5 on the screen | BLEU {quality['screen']:.2f} against {quality['exact']:.2f}, "
        f"{quality['identical']:.1%} of the sentences the same; output layer x{layer:.1f}, "
        f"whole x{times['screen']['ratio']:.2f} |"
    )


if __name__ == "__main__":
    print("\n".join(rows()) or "no results yet: make scoreboard PART=output_layer")
