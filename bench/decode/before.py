"""This version against the one before it was put in order: the same model, layer and search, in turns."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.engines.child import Child, python_engine
from bench.flags import Data, Rounds
from bench.harness import record
from bench.harness.testset import DATA, german_english

BEAM = 5
SIZES = (1, 32)


def measure(before: Child, now: Child, sources: list[str], rounds: int) -> dict[str, Any]:
    """For each batch size the ratios of processor time, before over now, and how many translations differ."""
    figures: dict[str, Any] = {}
    for size in SIZES:
        ratios: list[float] = []
        differ = 0
        for number in range(rounds + 1):
            pair = (before, now) if number % 2 else (now, before)
            found = {child: child.translate(sources, size) for child in pair}
            if number:  # the first one warms
                ratios.append(found[before].cpu_s / found[now].cpu_s)
            differ = sum(a != b for a, b in zip(found[before].texts, found[now].texts, strict=True))
        figures[str(size)] = {
            "ratio": [round(value, 3) for value in (statistics.median(ratios), min(ratios), max(ratios))],
            "differ": differ,
        }
    return figures


def main(
    checkout: Annotated[Path, typer.Option(help="a checkout of the commit before, built in place")],
    data: Data = DATA,
    sentences: Annotated[int, typer.Option(help="of the test set")] = 200,
    rounds: Rounds = 7,
) -> None:
    """Measure, print and record."""
    sources = german_english(data, sentences)[0]
    model = str(checkout / "models" / "de-en")
    with (
        python_engine("before", checkout=str(checkout), model=model, beam=BEAM) as before,
        python_engine(
            "ours", model=model, machine={"compute_type": "int8"}, output_layer="scan", beam_size=BEAM
        ) as now,
    ):
        figures = {"batches": measure(before, now, sources, rounds)}
    options = {"model": "de-en", "beam_size": BEAM, "sentences": len(sources), "rounds": rounds}
    line = record.write("before", figures, threads=1, options=options)
    for size, found in line["batches"].items():
        least, most = found["ratio"][1:]
        print(f"batches of {size}: x{found['ratio'][0]:.3f} ({least:.3f} to {most:.3f}), {found['differ']} differ")
