"""`sharpbeam fit-preview`: a model folder in, its low-bit preview in the same folder out."""

from __future__ import annotations

from typing import Annotated

import typer

from sharpbeam.cli.fit_progress import shown_progress
from sharpbeam.cli.flags import with_options
from sharpbeam.fit.texts import HELP
from sharpbeam.options.decode import MachineOptions


@with_options(without=("device", "backend"))
def fit_preview(
    model: Annotated[str, typer.Argument(help="A model folder; the preview is written into it.")],
    *,
    text: Annotated[
        list[str],
        typer.Option(metavar="[[SOURCE-]TARGET=]FILE", help=HELP + " Default: sentences are made up."),
    ] = [],  # noqa: B006 (read only)
    vectors: Annotated[int, typer.Option(help="Hidden vectors that the preview is fitted to.")] = 6000,
    machine: MachineOptions,
) -> None:
    """Fit the low-bit preview of a model's output layer: exact answers from a small part of its bytes.

    All tokens are previewed in 4 bits, with as many coordinates as each needs; a bound proves which of them can be the
    best or matter to a beam. `--output-layer proven` then gives the tokens of the exact layer; `--output-layer
    calibrated` takes the part of the bound that was ever needed, and is faster still. Takes seconds, and no labels.

    Examples:

    * `sharpbeam fit-preview runs/de-en/best --text news.de.gz`
    * `sharpbeam fit-preview enpt`
    * `sharpbeam translate enpt book.txt --output-layer proven --beam-size 1`
    """
    from sharpbeam.fit.low_bit_job import fit_preview

    with shown_progress() as progress:
        fitted = fit_preview(model, text, vectors=vectors, machine=machine, progress=progress)
    print(fitted.summary())
