"""`sharpbeam fit-screen`: unlabelled text in, a screen in the model folder out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sharpbeam.cli.fit_progress import shown_progress
from sharpbeam.cli.flags import with_options
from sharpbeam.errors import OptionError
from sharpbeam.fit.texts import HELP
from sharpbeam.options.decode import MachineOptions
from sharpbeam.options.fit import ScreenOptions


@with_options(without=("device", "backend"))
def fit_screen(
    model: Annotated[str, typer.Argument(help="A model folder; the screen is written into it.")],
    *,
    text: Annotated[list[str], typer.Option(metavar="[[SOURCE-]TARGET=]FILE", help=HELP)],
    per: Annotated[
        str,
        typer.Option(
            metavar="auto|all|target|direction",
            help="What gets a screen of its own; auto: each direction of a multilingual model, or each target language "
            "where texts come without a source language.",
        ),
    ] = "auto",
    work: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for the hidden vectors, kept for another fit. Default: MODEL.vectors next to the model, "
            "removed after the fit.",
        ),
    ] = None,
    keep_best: Annotated[
        bool, typer.Option("--keep-best", help="Write the best screen even if none is good enough.")
    ] = False,
    screen: ScreenOptions,
    machine: MachineOptions,
) -> None:
    """Fit the screen of a model: the few tokens that are scored, so that the output is the same in less time.

    The text is decoded with the exact output layer (a language model reads it), and the hidden vectors are kept in the
    work folder; they are clustered, and each cluster keeps the tokens that it needs. Of all settings that may win the
    cheapest is chosen whose fidelity, with 95% confidence, is at least --fidelity on sentences that it was not fitted
    on. Fidelity is the share of steps that the exact layer would have decided in the same way: all tokens are right
    that could change what the search does, and the normalizers that they are compared by are within --tolerance. Rows
    that fail the screen's fallback test go to the exact layer. screen.json says what was measured. If no setting
    reaches the fidelity and reads less than a scan of all tokens, an old screen stays and the status is 1.

    After the first 20,000 vectors a forecast says what a screen can gain on this model. An interrupted fit resumes when
    the same command is given again.

    A multilingual model gets one screen for each direction that there is text of, each fitted on --vectors of its own.
    --per target gives one for each target language (a text may then be fra=FILE), --per all one for everything, from
    equal parts of the directions. To translate in other directions, choose another output layer.

    Examples:

    * `sharpbeam fit-screen runs/de-en/best --text news.de.gz`
    * `sharpbeam fit-screen runs/de-en/best --text news.de --method l2s --clusters 100 --budget 300`
    * `sharpbeam fit-screen runs/lm/best --text train.txt`
    * `sharpbeam fit-screen runs/de-fr-es-en/best --text de-en=news.de --text en-de=news.en --text fr-en=news.fr`
    * `sharpbeam translate runs/de-en/best book.txt --output-layer screen --stats`
    """
    if not text:
        raise OptionError("--text is missing; give a file of source sentences, one a line.")
    from sharpbeam.fit.screen.job import fit_screen

    with shown_progress() as progress:
        fitted = fit_screen(
            model, text, per=per, work=work, keep_best=keep_best, options=screen, machine=machine, progress=progress
        )
    print(fitted.summary())
    kept = "were removed; give --work FOLDER to keep them" if fitted.vectors is None else f"are in {fitted.vectors}"
    print(f"The hidden vectors {kept} for another fit.", file=sys.stderr)
