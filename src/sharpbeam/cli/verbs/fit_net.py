"""`sharpbeam fit-net`: a model folder with a shortlist in, the safety net of the shortlist in the same folder out."""

from __future__ import annotations

from typing import Annotated

import typer

from sharpbeam.cli.fit_progress import shown_progress
from sharpbeam.cli.flags import with_options
from sharpbeam.fit.texts import HELP
from sharpbeam.options.decode import MachineOptions


@with_options(without=("device", "backend"))
def fit_net(
    model: Annotated[str, typer.Argument(help="A model folder with a shortlist; the net is written into it.")],
    *,
    text: Annotated[
        list[str],
        typer.Option(metavar="[[SOURCE-]TARGET=]FILE", help=HELP + " Default: sentences are made up."),
    ] = [],  # noqa: B006 (read only)
    fidelity: Annotated[
        float, typer.Option(help="Least share of rows that have all tokens that matter, or fall back.")
    ] = 0.999,
    vectors: Annotated[int, typer.Option(help="Hidden vectors that the net is fitted to and measured on.")] = 60_000,
    machine: MachineOptions,
) -> None:
    """Fit the safety net of a model's shortlist: rows that may lack a token that matters fall back.

    A small network predicts what the tokens outside of a row's set may reach. Where that is near what the search can
    use, `--output-layer shortlist-net` asks the calibrated layer (fit-preview), which looks at all tokens. Give text of
    the kind that you translate: of made-up sentences a shortlist lacks more, so that more rows fall back than need to.

    Examples:

    * `sharpbeam fit-net enpt --text news.en.gz`
    * `sharpbeam fit-net enpt --text news.en.gz --fidelity 0.9995`
    * `sharpbeam translate enpt book.txt --output-layer shortlist-net --beam-size 1`
    """
    from sharpbeam.fit.shortlist.net_job import fit_net

    with shown_progress() as progress:
        fitted = fit_net(model, text, fidelity=fidelity, vectors=vectors, machine=machine, progress=progress)
    print(fitted.summary())
