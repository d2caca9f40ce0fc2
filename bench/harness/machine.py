"""The ceilings of this machine, which every later figure is held against."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Annotated, Any

import typer

from bench.harness import record

PROGRAM = record.ROOT / "build" / "bench" / "machine"
SETS_MB = (1, 2, 4, 8, 16, 24, 32, 48, 64, 128, 256, 512)


def measure(threads: int, seconds: float, sets: tuple[int, ...] = SETS_MB) -> dict[str, Any]:
    """Read bandwidth (GB/s by MB of the set, all threads together) and multiply-accumulate peaks (GMAC/s)."""
    command = [str(PROGRAM), str(threads), str(seconds), *map(str, sets)]
    result: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return result


def ceilings(threads: int) -> dict[str, Any]:
    """The latest measurement on a machine with this processor; IndexError without one."""
    lines = [r for r in record.read("machine") if r["cpu"] == record.cpu() and r["threads"] == threads]
    return lines[-1]


def bandwidth(ceiling: dict[str, Any], megabytes: float) -> float:
    """The most GB/s for a set of `megabytes`: of the largest measured set that is no larger, else of the smallest."""
    rates = {int(size): rate for size, rate in ceiling["read_gb_s"].items()}
    return float(rates[max((size for size in rates if size <= megabytes), default=min(rates))])


def main(
    seconds: Annotated[float, typer.Option(help="time of one measurement; five are taken of each")] = 0.2,
    sets: Annotated[list[int], typer.Option(help="sizes to read")] = list(SETS_MB),
) -> None:
    """Measure, print and record."""
    for threads in sorted({1, min(2, os.cpu_count() or 1)}):
        figures = measure(threads, seconds, tuple(sets))
        line = record.write("machine", figures, threads=threads, options={"seconds": seconds})
        print(f"{line['cpu']}, {threads} thread(s), integers by {figures['integer_unit']}")
        print("  set, MB     " + "".join(f"{size:>7}" for size in figures["read_gb_s"]))
        print("  read, GB/s  " + "".join(f"{rate:>7.0f}" for rate in figures["read_gb_s"].values()))
        print("  GMAC/s      " + "  ".join(f"{kind} {rate}" for kind, rate in figures["gmac_s"].items()))
