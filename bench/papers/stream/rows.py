"""The cost of a row by how many rows take a step together: what a fuller step can save on this machine.

STREAM's gain over batches is that its steps are fuller. A step of R rows of one model is timed for each R, with the
int8 scan as the output layer; between two numbers of rows per step the cost of a row says what is to be had.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.flags import Data, Model, Rounds
from bench.harness import record
from bench.harness.interleave import interleave
from bench.harness.testset import DATA, german_english
from sharpbeam import MachineOptions, Translator
from sharpbeam.output_layers.scan import ScanLayer
from sharpbeam.types import Request

ROWS = (1, 2, 4, 7, 10, 16, 21, 29, 50, 88, 105, 160)
REQUESTS = 32
TOGETHER = 160  # rows of one reading of the clock, in steps of R


def measure(model: str, data: str, beam_size: int, rounds: int) -> dict[str, Any]:
    """Microseconds of a row in steps of each number of rows, for model and output layer; recorded."""
    translator = Translator(model, machine=MachineOptions(threads=1))
    parts, draw = translator.loaded, np.random.default_rng(1)
    layer = ScanLayer.build(*parts.model.output())
    sources, _ = german_english(data, REQUESTS)
    ends = np.array([parts.model.eos_id], np.int32)
    requests = [Request(i, np.append(parts.source.encode(s), ends).astype(np.int32)) for i, s in enumerate(sources)]
    run = parts.model.open()
    first = run.admit(requests)
    vocab = layer.vocab_size

    def steps(rows: int) -> Callable[[], None]:
        of = [np.sort(draw.integers(0, REQUESTS, rows)).astype(np.int32) for _ in range(max(1, TOGETHER // rows))]
        tokens = [draw.integers(4, vocab, rows).astype(np.int32) for _ in of]

        def repeat() -> None:
            for request, token in zip(of, tokens, strict=True):
                hidden, _ = run.step(request, first[request], token)
                layer.topk(hidden, 2 * beam_size)
                run.retain(first)

        return repeat

    timings = interleave({str(rows): steps(rows) for rows in ROWS}, "1", rounds, lambda _: None, time.process_time)
    us = {n: round(1e6 * t.median_s / (max(1, TOGETHER // int(n)) * int(n)), 2) for n, t in timings.items()}
    options = {"model": model, "beam_size": beam_size, "rounds": rounds}
    return record.write("stream_rows", {"us_per_row": us}, threads=1, options=options)


def main(data: Data = DATA, model: Model = "de-en", beam_size: int = 5, rounds: Rounds = 9) -> None:
    """Measure, print and record."""
    for rows, us in measure(model, data, beam_size, rounds)["us_per_row"].items():
        print(f"{rows:>4} rows  {us:8.1f} us a row")
