"""`sharpbeam profile`: the share of each part in the time of decoding."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Annotated

from sharpbeam.cli.command import verb
from sharpbeam.cli.flags import argument
from sharpbeam.errors import InputError
from sharpbeam.options.decode import DecodeOptions, MachineOptions, SamplingOptions
from sharpbeam.options.keywords import DecodeKeywords
from sharpbeam.options.schema import option
from sharpbeam.text.lines import TextInput

_NEVER = "device threads isa sampling return_alternatives return_attention coverage_penalty"


@verb(without=(*_NEVER.split(), SamplingOptions))
def profile(
    model: str = argument("A model folder, or the name of a bundled model; a+b is an ensemble."),
    files: list[Path] | None = argument("Text, one sentence a line. Default: sample sentences.", default=None),
    *,
    sentences: int = option(50, "Lines of the text to decode.", ge=1),
    json_: bool = option(False, "One JSON object instead of text."),
    options: Annotated[DecodeKeywords, DecodeOptions],
    machine: MachineOptions,
) -> None:
    """Show where the time of decoding goes, on one thread: the share of each part of a step.

    The search is the one that `translate` uses, unless options say otherwise. The clocks are in a kernel table of
    their own, so nothing else pays for them. `--batch-tokens 1` decodes one sentence at a time. SHARPBEAM_ISA profiles
    another kernel table.

    Examples:

    * `sharpbeam profile de-en news.de --batch-tokens 1`
    * `sharpbeam profile de-en --json | jq .parts`
    """
    from sharpbeam.report.profile import profile

    texts = [line for line in islice(TextInput(files), sentences) if line.strip()] if files else None
    if texts == []:
        names = ", ".join(map(str, files or []))
        raise InputError(f"{names}: the first {sentences} lines have no sentence; give text with one sentence a line.")
    report = profile(model, texts, sentences=sentences, machine=machine, **options)
    print(json.dumps(report.record()) if json_ else report.summary())
