"""`sharpbeam screen-report`: what a screen does, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sharpbeam.cli.flags import with_options
from sharpbeam.fit.texts import HELP
from sharpbeam.jobs.progress import progress_bar
from sharpbeam.options.decode import MachineOptions


@with_options(without=("device", "backend"))
def screen_report(
    model: Annotated[str, typer.Argument(help="A model folder with a screen (see fit-screen).")],
    *,
    text: Annotated[list[str], typer.Option(metavar="[SOURCE-TARGET=]FILE", help=HELP)] = [],  # noqa: B006
    vectors: Annotated[int, typer.Option(min=1, help="Hidden vectors of --text to measure on, at least.")] = 20_000,
    clusters: Annotated[int, typer.Option(min=0, help="Clusters whose words are shown, from small to large.")] = 5,
    words: Annotated[int, typer.Option(min=1, help="Words shown of each.")] = 15,
    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for the report and its picture; made if missing.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
    machine: MachineOptions,
) -> None:
    """Say what the screen of a model does: how often it is right, what it saves, and what its clusters hold.

    Without `--text`, the figures are those of fit-screen's held-out sentences. With `--text` (which the screen
    should not have been fitted on), they are measured: P@1, P@k, the share of rows that go to the exact layer, and why.
    There are three reasons: the set has *few* words, fewer than k; the lowest logit that matters is *low*; or the row
    is *far* from the vectors that its set was made from, so that a word outside might score higher than it seems.

    Words that nearly every set has are shown once; of each cluster those words that the fewest others have.

    Of a multilingual model every screen is reported; with `--text de-en=FILE` that one which serves the direction.

    Of a model with a low-bit preview (fit-preview) and no screen, what the preview leaves of each row of `--text`.

    The picture needs Matplotlib: `pip install 'sharpbeam[train]'`.

    Examples:

    * `sharpbeam screen-report runs/de-en/best`
    * `sharpbeam screen-report runs/de-en/best --text test.de.gz --output report`
    * `sharpbeam screen-report runs/de-fr-es-en/best --text de-en=test.de --text en-fr=test.en`
    * `sharpbeam screen-report runs/de-en/best --json | jq .sets`
    """
    from sharpbeam.report.previews import PreviewReports, only_previewed, preview_report
    from sharpbeam.report.screen_report import ScreenReport, screen_report

    found: ScreenReport | PreviewReports
    with progress_bar("decoding", vectors, shown=bool(text), unit="vectors") as bar:
        if only_previewed(model):
            found = preview_report(model, text, vectors=vectors, machine=machine)
        else:
            found = screen_report(
                model, text, vectors=vectors, clusters=clusters, words=words, machine=machine, progress=bar
            )
    if output is not None:
        found.write(output)
    print(json.dumps(found.record(), ensure_ascii=False) if as_json else found.summary(words))
