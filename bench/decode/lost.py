"""Rows of a beam of 5 in which the preview loses a token that matters, on text unlike that of its fit.

`python -m bench decode.lost MODEL --text FILE --name NAME` translates the sources as they are, in capitals, and with
their words shuffled. A token matters if the beam could use it: its score is at least that of the fifth best candidate
that does not end. A scan says what there is to find: its best tokens are proven.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from bench.harness import record
from sharpbeam.decoding.loading import LoadedModel, load_model
from sharpbeam.fit.collect import Collector
from sharpbeam.options.decode import MachineOptions
from sharpbeam.output_layers.interface import OutputLayer
from sharpbeam.output_layers.scan import ScanLayer
from sharpbeam.text.lines import read_lines

TOP_K, TOGETHER, SHUFFLED = 10, 400, 12  # tokens of a row, lines of a call, and words of a shuffled line


def kinds(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """The text in several kinds, by name."""
    words = [word for line in lines for word in line.split()]
    random.Random(7).shuffle(words)
    yield "text", lines
    yield "capitals", [line.upper() for line in lines]
    yield "shuffled", [" ".join(words[at : at + SHUFFLED]) for at in range(0, len(words), SHUFFLED)]


def lost(loaded: LoadedModel, preview: OutputLayer, lines: list[str], rows: int) -> dict[str, int]:
    """Rows of the lines, at least `rows` if there are; those that lose a token; and those with another of ten best."""
    run, count = preview.open(), {"rows": 0, "lost": 0, "other": 0}
    scanned = replace(loaded, exact=ScanLayer.build(*loaded.model.output()))
    for first in range(0, len(lines), TOGETHER):
        steps = Collector(scanned, loaded.folder, 5, TOP_K).decode(lines[first : first + TOGETHER], first)
        hidden = np.ascontiguousarray(steps["hidden"])
        found = run.topk(hidden, TOP_K, np.zeros(len(hidden), np.int32)).token
        missed = ~(steps["token"][:, :, None] == found[:, None, :]).any(axis=2)
        matters = steps["log_prob"] >= steps["floor"][:, None]
        count["rows"] += len(steps)
        count["lost"] += int((missed & matters).any(axis=1).sum())
        count["other"] += int(missed.any(axis=1).sum())
        if count["rows"] >= rows:
            break
    return count


def main(
    model: Annotated[Path, typer.Argument(help="a model folder with a preview")],
    text: Annotated[list[Path], typer.Option(help="sources, one a line, what follows a tab left out; may be repeated")],
    name: Annotated[str, typer.Option(help="what to call the model in the results")],
    rows: Annotated[int, typer.Option(help="of each kind of text, at most, to the next 400 lines")] = 500_000,
) -> None:
    """Count, print and record."""
    loaded = load_model(model, MachineOptions(threads=1))
    preview = loaded.layer_named("preview")
    lines = [line.split("\t")[0] for path in text for line in read_lines(path)]
    figures = {kind: lost(loaded, preview, own, rows) for kind, own in kinds(lines)}
    line = record.write("lost_rows", {"kinds": figures}, threads=1, options={"model": name, "rows": rows})
    print(json.dumps(line))
