"""No flags against the best that `tune` finds: is a user who asks for nothing within a tenth of it?

A copy of the model is tuned on the text (number types and output layers whose tokens are proven). Then the model as it
is and the tuned copy take turns, one sentence at a time and in batches of 32, each with no flags, on one thread; ratios
are of processor time.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.decode.real import SETS, sentences
from bench.harness import record
from bench.harness.cache import model_name
from bench.harness.interleave import interleave
from bench.harness.testset import DATA
from sharpbeam import Translator
from sharpbeam.options.machine import EXACT
from sharpbeam.report.tune import BATCH, tune
from sharpbeam.storage.tuned import FILE, read_tuned


def measure(folder: Path, text: str, count: int, rounds: int, data: str) -> dict[str, Any]:
    """One line: times of no flags over those of the tuned copy, in both ways, and what was chosen."""
    os.environ[EXACT] = "0"  # bench/__init__.py asks for the reference
    model = model_name(folder.resolve())
    lines, _ = sentences(data, model, text, count)
    with tempfile.TemporaryDirectory(prefix="sharpbeam-") as place:
        copy = shutil.copytree(folder, Path(place) / "model", ignore=shutil.ignore_patterns(FILE))
        plain = Translator(copy, threads=1)  # loaded before there is a choice
        (Path(place) / "text").write_text("\n".join(lines) + "\n", encoding="utf-8")
        beam = plain.defaults.search.beam_size
        tune(copy, [Path(place) / "text"], sentences=count)
        tuned = Translator(copy, threads=1)
        chosen = read_tuned(copy)
        figures = {str(size): _ratio(plain, tuned, lines, size, rounds) for size in (1, BATCH)}
    auto = {"compute_type": plain.loaded.machine.compute_type, "output_layer": plain.loaded.layer_name(plain.defaults)}
    options = {"model": model, "set": text, "beam": beam, "sentences": len(lines), "rounds": rounds}
    return record.write("no_flags", {"auto": auto, "tuned": chosen, "slower": figures}, threads=1, options=options)


def _ratio(plain: Translator, tuned: Translator, lines: list[str], size: int, rounds: int) -> dict[str, float]:
    """Times that no flags take as long as the tuned choice: median, least and most of the rounds."""

    def run(translator: Translator) -> int:
        parts = (lines[first : first + size] for first in range(0, len(lines), size))
        return sum(len(translator.translate(part)) for part in parts)

    contenders = {"plain": lambda: run(plain), "tuned": lambda: run(tuned)}
    found = interleave(contenders, "plain", rounds, lambda _: None, clock=time.process_time)["tuned"]
    return {"median": round(found.ratio, 3), "least": round(found.least_ratio, 3), "most": round(found.most_ratio, 3)}


def main(
    models: Annotated[list[Path], typer.Argument(help="model folders")],
    data: Annotated[str, typer.Option(help="folder of the text")] = DATA,
    text: Annotated[str, typer.Option(help=f"one of {', '.join(SETS)}")] = "valid",
    count: Annotated[int, typer.Option(help="sentences, at equal distances")] = 60,
    rounds: Annotated[int, typer.Option(min=1)] = 5,
) -> None:
    """Measure, print and record each model."""
    for folder in models:
        print(json.dumps(measure(folder, text, count, rounds, data)), flush=True)
