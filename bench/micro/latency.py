"""How long one sentence takes, by its length, on one thread; and what of a step is bookkeeping."""

from __future__ import annotations

import statistics
import time
from typing import Annotated, Any

import numpy as np
import typer

from bench.flags import Data, Model
from bench.harness import record
from bench.harness.testset import DATA, NEWS_TEST, TEST, german_english
from sharpbeam import MachineOptions, Translator
from sharpbeam.decoding.loading import find_models
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.report.profile import load_profiled, profile_texts

BEAM = 6
BUCKETS = ((1, 5), (6, 10), (11, 20), (21, 40), (41, 1000))  # source words
TURNS = 3  # each sentence's time is the median of so many


def measure(model: str, data: str, compute_type: str, output_layer: str, sentences: int) -> dict[str, Any]:
    """Milliseconds by source length, p50 and p99; the share of bookkeeping in a step of one sentence."""
    machine = MachineOptions(threads=1, compute_type=compute_type)  # type: ignore[arg-type]
    options: dict[str, Any] = {"beam_size": BEAM, "output_layer": output_layer}
    translator = Translator(model, machine=machine)
    sources = [source for file in (TEST, NEWS_TEST) for source in german_english(data, sentences, file)[0]]
    translator.translate(sources[:20], **options)  # warm
    times: dict[tuple[int, int], list[float]] = {bucket: [] for bucket in BUCKETS}
    for source in sources:
        taken = []
        for _ in range(TURNS):
            began = time.perf_counter()
            translator.translate([source], **options)
            taken.append(1e3 * (time.perf_counter() - began))
        length = len(source.split())
        times[next(b for b in BUCKETS if b[0] <= length <= b[1])].append(statistics.median(taken))
    buckets = {
        f"{low}-{high}" if high < 1000 else f"{low}+": {
            "sentences": len(found),
            "p50_ms": round(float(np.percentile(found, 50)), 2),
            "p99_ms": round(float(np.percentile(found, 99)), 2),
        }
        for (low, high), found in times.items()
        if found
    }
    choices = DecodeOptions.of(**options, batch_tokens=1)
    found = profile_texts(load_profiled(find_models(model), machine), sources[:60], 60, choices)
    figures = {
        "by_words": buckets,
        "bookkeeping": round(found.bookkeeping, 4),
        "step_ms": round(1e3 * found.seconds * (1 - found.share("encoder")) / found.steps, 4),
        "shares": {part.name: round(part.seconds / found.seconds, 4) for part in found.parts},
    }
    options = {"model": model, "compute_type": compute_type, **options, "sentences": len(sources)}
    return record.write("latency", figures, threads=1, options=options)


def describe(line: dict[str, Any]) -> str:
    """One measurement, for people."""
    each = "; ".join(
        f"{words} words {found['p50_ms']:.1f}/{found['p99_ms']:.1f} ms" for words, found in line["by_words"].items()
    )
    return f"p50/p99 {each}; bookkeeping {line['bookkeeping']:.1%} of a step of {line['step_ms']:.3f} ms"


def main(
    data: Data = DATA,
    model: Model = "de-en",
    compute_type: str = "int8",
    output_layer: str = "scan",
    sentences: Annotated[int, typer.Option(help="of each of the two test sets")] = 500,
) -> None:
    """Measure, print and record."""
    print(describe(measure(model, data, compute_type, output_layer, sentences)))
