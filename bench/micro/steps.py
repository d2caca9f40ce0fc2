"""A step of the preview against one of `scan`: greedy search, a beam of 5, and 32 beams at a time.

`python -m bench micro.steps MODEL --text FILE --name NAME` takes source text that the preview was not fitted to. Both
layers get the hidden vectors of these searches, in turns, on one thread; only beams ask for normalizers.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Annotated, cast

import typer

from bench.flags import Rounds
from bench.harness import record
from bench.harness.bound import preview_us
from sharpbeam.decoding.loading import load_model
from sharpbeam.fit.collect import collect_rows
from sharpbeam.fit.preview import step_times
from sharpbeam.options.decode import MachineOptions
from sharpbeam.output_layers.preview import PreviewLayer
from sharpbeam.output_layers.scan import ScanLayer
from sharpbeam.text.lines import read_lines

VECTORS = 4000
STEPS = {1: (1, 1), 5: (5, 1), 160: (5, 32)}  # rows: beam size and requests


def main(
    model: Annotated[Path, typer.Argument(help="a model folder with a preview")],
    text: Annotated[str, typer.Option(help="source text, one sentence a line")],
    name: Annotated[str, typer.Option(help="what to call the model in the results")],
    rounds: Rounds = 7,
) -> None:
    """Time, print and record."""
    loaded = load_model(model, MachineOptions(threads=1))
    scan = ScanLayer.build(*loaded.model.output())
    preview = cast("PreviewLayer", loaded.layer_named("preview"))
    scanned, lines = replace(loaded, exact=scan), [line.split("\t")[0] for line in read_lines(Path(text))]
    times, direction = {}, loaded.direction(loaded.options.languages)
    for rows, (width, requests) in STEPS.items():
        hidden = collect_rows(scanned, lines, VECTORS, width, 1, direction)[1]["hidden"]
        each = [step_times(preview, scan, hidden, width, requests, width > 1) for _ in range(rounds)]
        gains, us = [scanned / own for scanned, own in each], median(scanned for scanned, _ in each) / 1e3
        times[str(rows)] = {"median": median(gains), "least": min(gains), "most": max(gains)}
        times[str(rows)] |= {"scan_us": us, "bound_us": preview_us(loaded, rows)}
    facts = {"vocab": preview.vocab_size, "times_as_fast": times}
    options = {"model": name, "text": Path(text).name, "vectors": VECTORS, "rounds": rounds}
    print(json.dumps(record.write("steps", facts, threads=1, options=options)))
