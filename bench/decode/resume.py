"""Kill `sharpbeam translate --output` at random moments and check that --resume gives the same file, byte for byte."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from bench.flags import Data, Model
from bench.harness.testset import DATA, german_english


def command(model: str, source: Path, output: Path, beam: int, *more: str) -> list[str]:
    """One translate command."""
    program = [sys.executable, "-m", "sharpbeam.cli.main", "translate", model, str(source)]
    return [*program, "--output", str(output), "--beam-size", str(beam), *more]


def kill_and_resume(model: str, data: str, lines: int, times: int, beam: int, seed: int) -> tuple[int, list[float]]:
    """Returns how many of `times` resumed files equal the undisturbed one, and the moments of the kills in seconds."""
    sources, _ = german_english(data)
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        source, whole = Path(folder, "source.txt"), Path(folder, "whole.txt")
        source.write_text("".join(sources[i % len(sources)] + "\n" for i in range(lines)), encoding="utf-8")
        began = time.perf_counter()
        subprocess.run(command(model, source, whole, beam), check=True)
        took = time.perf_counter() - began
        equal, moments = 0, list[float]()
        while len(moments) < times:
            output, moment = Path(folder, f"{len(moments)}.txt"), draw.uniform(0, took)
            with subprocess.Popen(command(model, source, output, beam), stderr=subprocess.DEVNULL) as child:
                time.sleep(moment)
                child.send_signal(signal.SIGKILL)
            if output.exists():  # it was done before the kill: draw another moment
                output.unlink()
                continue
            subprocess.run(command(model, source, output, beam, "--resume"), check=False)
            equal += output.exists() and output.read_bytes() == whole.read_bytes()
            moments.append(round(moment, 2))
    return equal, moments


def main(
    data: Data = DATA,
    model: Model = "de-en",
    lines: int = 2000,
    times: Annotated[int, typer.Option(help="kills")] = 10,
    beam_size: int = 5,
    seed: int = 1,
) -> None:
    """Measure, print and record."""
    equal, moments = kill_and_resume(model, data, lines, times, beam_size, seed)
    print(f"{equal} of {times} resumed files are the same; killed after {moments} s")
    sys.exit(equal != times)
