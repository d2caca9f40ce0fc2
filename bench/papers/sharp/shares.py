"""The most that steps of SHARP could save: matmuls, and those that precomputing spares, as shares of the time.

The kernels of a decoding run are timed by the table "profiled", which multiplies as the table of the ablation does; the
whole run is timed without it, with plain loops, as SHARP-0 has them. If matmuls were free, SHARP-1 would be as fast as
the whole without their time: no type of numbers gives more. The same for the matmuls that SHARP-2 and SHARP-3 spare.
"""

from __future__ import annotations

import os
import time
from typing import Any

from bench.flags import Data, Model, Rounds, Sentences
from bench.harness import record
from bench.harness.interleave import interleave
from bench.harness.testset import DATA, german_english
from bench.harness.with_shortlist import listed
from bench.micro.gemm import blas
from bench.papers.sharp.sharp import BASELINE, SEARCH, steps
from sharpbeam import MachineOptions, Translator
from sharpbeam.decoding.loading import find_models
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.report.profile import load_profiled, profile_texts

TIMED = (BASELINE, "SHARP-1 int16", "SHARP-2 int16", "SHARP-3 int16")
TURNS = 7  # profiles of a sentence, of which the least of each kind is taken: other work on the machine only adds
KERNELS = {"matmuls": "products", "attention": "attention", "encoder": "encoder"}  # and what their parts are named


def matmuls(model: str, machine: MachineOptions, sources: list[str]) -> dict[str, float]:
    """Milliseconds a sentence of matmuls in the steps, of attention and of the encoder."""
    choices = DecodeOptions.of(output_layer="shortlist", **SEARCH)
    loaded, total = load_profiled(find_models(model), machine), dict.fromkeys(KERNELS, 0.0)
    for source in sources:
        found = [profile_texts(loaded, [source], 1, choices) for _ in range(TURNS)]
        for kind, parts in KERNELS.items():
            total[kind] += min(sum(p.seconds for p in one.parts if parts in p.name) for one in found)
    return {kind: round(1e3 * seconds / len(sources), 4) for kind, seconds in total.items()}


def measure(model: str, data: str, sentences: int, rounds: int) -> dict[str, Any]:
    """Whole milliseconds a sentence of SHARP-0 to SHARP-3 with int16, their matmuls, and the most a step can give."""
    folder, rows = listed(model, data), steps(())
    os.environ |= {"SHARPBEAM_BLAS": str(blas()), "OPENBLAS_NUM_THREADS": "1"}
    sources, _ = german_english(data, sentences)
    translators = {name: Translator(folder, machine=rows[name].machine) for name in TIMED}
    runs = {
        name: (lambda one=one: one.translate(sources, output_layer="shortlist", **SEARCH))
        for name, one in translators.items()
    }
    timings = interleave(runs, BASELINE, rounds, lambda _: None, time.process_time)
    found: dict[str, dict[str, float]] = {}
    for name in TIMED:
        whole = round(1e3 * timings[name].median_s / len(sources), 4)
        found[name] = {"ms": whole} | matmuls(str(folder), rows[name].machine, sources)
    most = {"SHARP-1": _most(found[BASELINE], found[BASELINE]["matmuls"])}
    for before, step in zip(TIMED[1:], ("SHARP-2", "SHARP-3"), strict=False):
        spared = found[before]["matmuls"] - found[f"{step} int16"]["matmuls"]
        most[step] = _most(found[before], max(spared, 0.0))
    options = {"model": model, "sentences": len(sources), "rounds": rounds} | SEARCH
    return record.write("sharp_shares", {"steps": found, "most": most}, threads=1, options=options)


def _most(row: dict[str, float], spared: float) -> float:
    return round(row["ms"] / (row["ms"] - spared), 3)


def main(data: Data = DATA, model: Model = "de-en", sentences: Sentences = 40, rounds: Rounds = 5) -> None:
    """Measure, print and record."""
    line = measure(model, data, sentences, rounds)
    for name, row in line["steps"].items():
        print(f"{name:<16}" + ", ".join(f"{part} {ms:.3f}" for part, ms in row.items()) + " (ms a sentence)")
    print("at most: " + ", ".join(f"{name} x{most:.2f}" for name, most in line["most"].items()))
