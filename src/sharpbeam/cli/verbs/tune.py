"""`sharpbeam tune`: the fastest number type and output layer of a model on this machine."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer


def tune(
    model: Annotated[str, typer.Argument(help="A translation model's folder; tuned.json is written into it.")],
    *,
    text: Annotated[list[Path], typer.Option(help="Source text, one sentence a line; .gz too. May be repeated.")],
    beam_size: Annotated[
        int | None, typer.Option(min=1, help="Hypotheses kept at each step; 1 = greedy. Default: the model's own.")
    ] = None,
    sentences: Annotated[int, typer.Option(help="Sentences of the text that every choice translates.")] = 100,
    threads: Annotated[int, typer.Option(help="Workers that decode in parallel.")] = 1,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the table to this file, as PNG. Default: tuned.png in the model's folder.")
    ] = None,
) -> None:
    """Measure number types and output layers on this machine, and keep the fastest with the same answers.

    Takes minutes. A table says what each choice costs, one sentence at a time and in batches of 32, and how many
    sentences have the answer of the reference (float32, exact layer). `translate` takes the chosen one from then on;
    `translate --exact` is the reference. The picture needs Matplotlib.

    Examples:

    * `sharpbeam tune enpt --text news.en`
    * `sharpbeam tune enpt --text news.en.gz --beam-size 1 --sentences 300`
    """
    from sharpbeam.report.tune import tune

    shown = (
        (lambda note: print(f"\r\x1b[K{note}", end="", file=sys.stderr, flush=True)) if sys.stderr.isatty() else None
    )
    found = tune(model, list(text), beam_size=beam_size, sentences=sentences, threads=threads, progress=shown)
    if shown:
        shown("")
    print(found.table())
    if picture or find_spec("matplotlib"):
        print(f"{found.draw(picture)}: the same as a picture.")
