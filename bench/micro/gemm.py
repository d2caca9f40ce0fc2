"""Products of 1 to 16 rows: int16 and int8 (and our float32) against a BLAS in float32, and against the ceilings.

The timing is native (gemm.cpp), all contenders in turns, on shapes of the models; the ceilings of this machine are
measured just before and after. The BLAS is the OpenBLAS of scipy-openblas32, with the weights in the faster order.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.flags import Rounds
from bench.harness import machine, record

PROGRAM = record.ROOT / "build" / "bench" / "gemm"
SHAPES = ("1536x512", "1920x512", "1856x320", "320x512", "2000x1000")  # of de-en; of en-de-lstm
BYTES = {"blas": 4, "float32": 4, "int16": 2, "int8": 1}
# The most distance from the BLAS, as a share of the largest result.
OFF = {"blas": 0.0, "float32": 1e-5, "int16": 2e-3, "int8": 3e-2}
CEILINGS = {"float32": "f32", "int16": "int16", "int8": "int8"}


class DisagreementError(Exception):
    """A product is not what the BLAS gives, so its time means nothing."""


def blas() -> Path:
    """The shared library of scipy-openblas32, which is in the extra `bench`."""
    package: Any = import_module("scipy_openblas32")
    return Path(package.get_lib_dir()) / str(package.get_library(fullname=True))


def measure(shapes: tuple[str, ...], rounds: int, isa: str = "auto") -> dict[str, Any]:
    """Figures by shape, rows and contender: microseconds, speed-up over the BLAS, and share of the two ceilings."""
    sets = (1, 2, 4, 8, 16)
    before = machine.measure(1, 0.1, sets)
    command = [str(PROGRAM), str(blas()), isa, str(rounds), *shapes]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    after = machine.measure(1, 0.1, sets)
    ceiling = {
        "read_gb_s": {s: max(before["read_gb_s"][s], after["read_gb_s"][s]) for s in before["read_gb_s"]},
        "gmac_s": {kind: max(before["gmac_s"][kind], after["gmac_s"][kind]) for kind in before["gmac_s"]},
    }
    lines = [_figures(json.loads(line), ceiling) for line in result.stdout.splitlines()]
    options = {"shapes": shapes, "rounds": rounds, "isa": isa}
    return record.write("products", {"ceilings": ceiling, "products": lines}, threads=1, options=options)


def _figures(line: dict[str, Any], ceiling: dict[str, Any]) -> dict[str, Any]:
    for name, most in OFF.items():
        if line["off"][name] > most:
            raise DisagreementError(f"{name} is {line['off'][name]:.1e} off the BLAS at {line}")
    times = {name: line["ns"][name] for name in BYTES}
    times["blas"] = min(line["ns"]["blas"], line["ns"]["blas_turned"], key=statistics.median)
    figures: dict[str, Any] = {key: line[key] for key in ("out", "in", "rows")}
    for name, seconds in times.items():
        ns = statistics.median(seconds)
        weights = line["out"] * line["in"]
        read, macs = weights * BYTES[name] / ns, weights * line["rows"] / ns  # GB/s, GMAC/s
        ratios = sorted(base / own for base, own in zip(times["blas"], seconds, strict=True))
        figures[name] = {
            "us": round(ns / 1e3, 2),
            "ratio": round(statistics.median(ratios), 2),
            "least_ratio": round(ratios[0], 2),
            "most_ratio": round(ratios[-1], 2),
            "gb_s": round(read, 1),
            "gmac_s": round(macs, 1),
        }
        if name in CEILINGS:
            top = machine.bandwidth(ceiling, weights * BYTES[name] * line["copies"] / 2**20)
            figures[name]["of_bandwidth"] = round(read / top, 3)
            figures[name]["of_arithmetic"] = round(macs / ceiling["gmac_s"][CEILINGS[name]], 3)
    return figures


def describe(one: dict[str, Any]) -> str:
    """One shape and number of rows, for people."""
    each = "; ".join(
        f"{name} {one[name]['us']:.1f} us (x{one[name]['ratio']:.1f}, {one[name]['gb_s']:.0f} GB/s "
        f"{one[name]['of_bandwidth']:.0%}, {one[name]['gmac_s']:.0f} GMAC/s {one[name]['of_arithmetic']:.0%})"
        for name in CEILINGS
    )
    return f"{one['out']} x {one['in']}, {one['rows']:>2} rows: BLAS {one['blas']['us']:.1f} us; {each}"


def main(
    shapes: list[str] = list(SHAPES),
    rounds: Rounds = 30,
    isa: Annotated[str, typer.Option(help="kernel table")] = "auto",
) -> None:
    """Measure, print and record."""
    for product in measure(tuple(shapes), rounds, isa)["products"]:
        print(describe(product))
