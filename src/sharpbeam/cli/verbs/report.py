"""`sharpbeam report`: how often a fitted output layer is right, what it saves, and why."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from sharpbeam.cli.fit_progress import shown_progress
from sharpbeam.cli.flags import with_options
from sharpbeam.errors import OptionError, needs_extra
from sharpbeam.fit.texts import HELP
from sharpbeam.jobs.progress import progress_bar
from sharpbeam.options.decode import MachineOptions


@with_options(without=("device",))
def report(
    model: Annotated[str, typer.Argument(help="A model folder with a screen or a preview, or one of Hugging Face.")],
    *,
    text: Annotated[list[str], typer.Option(metavar="[SOURCE-TARGET=]FILE", help=HELP)] = [],  # noqa: B006 (read only)
    vectors: Annotated[int, typer.Option(min=1, help="Hidden vectors of --text to measure on.")] = 20_000,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
    machine: MachineOptions,
) -> None:
    """Report what a fitted output layer does, on text that it was not fitted to.

    Of a screen: how often it is right (P@1, P@k), the share of rows that fall back, and why: the set has *few* tokens,
    fewer than k; the lowest logit that matters is *low*; or the row is *far* from the vectors that the set was made
    from. Without --text, the figures are those of the fit's held-out sentences.

    Of a preview: the tokens that it leaves. It needs --text.

    Of a Hugging Face model with its tokenizer: the share of a step that its output layer takes, and what `Head.attach`
    would gain. It needs --text, PyTorch and transformers.

    Examples:

    * `sharpbeam report runs/de-en/best --text test.de.gz`
    * `sharpbeam report runs/de-fr-es-en/best --text de-en=test.de --text en-fr=test.en`
    * `sharpbeam report models/gemma-3-270m --text wiki.txt --json | jq .share`
    """
    from sharpbeam.report.layer import is_hugging_face, layer_report

    if is_hugging_face(model):
        if len(text) != 1:
            raise OptionError("a Hugging Face model needs one --text FILE.")
        with needs_extra("report on a Hugging Face model", "train"):
            from sharpbeam.report.head_report import head_report, load_model
        with shown_progress() as progress:
            head = head_report(*load_model(model), text[0], vectors=vectors, progress=progress)
        print(json.dumps(head.record()) if as_json else head.summary())
        return
    with progress_bar("decoding", vectors, shown=bool(text), unit="vectors") as bar:
        one = layer_report(model, text, vectors=vectors, machine=machine, progress=bar)
    print(json.dumps(one.record(), ensure_ascii=False) if as_json else one.summary())
