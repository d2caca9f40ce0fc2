"""`sharpbeam head-report`: what the output layer of a Hugging Face model costs, and what a head would gain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sharpbeam.cli.fit_progress import shown_progress
from sharpbeam.errors import needs_extra


def head_report(
    model: Annotated[str, typer.Argument(help="A folder of a Hugging Face model with its tokenizer.")],
    *,
    text: Annotated[Path, typer.Option(help="Text that the model reads, one a line; .gz too.")],
    vectors: Annotated[int, typer.Option(help="Hidden vectors to fit on and to measure on.")] = 3000,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Say which share of a step the output layer of a causal language model or encoder-decoder takes.

    And what `Head.attach` would gain with the layers `scan`, `proven` and `calibrated`, and how often each has the
    exact layer's best token, on held-out vectors. Times are processor time of one thread.

    Needs PyTorch and transformers.

    Examples:

    * `sharpbeam head-report models/gemma-3-270m --text wiki.txt`
    * `sharpbeam head-report models/gemma-3-270m --text wiki.txt --json | jq .share`
    """
    with needs_extra("head-report", "train"):
        from sharpbeam.report.head_report import head_report, load_model

    with shown_progress() as progress:
        found = head_report(*load_model(model), text, vectors=vectors, progress=progress)
    print(json.dumps(found.record()) if as_json else found.summary())
