"""`sharpbeam evaluate`: BLEU, chrF and speed on a test set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from sharpbeam.cli.command import verb
from sharpbeam.cli.flags import argument
from sharpbeam.errors import InputError, OptionError
from sharpbeam.jobs.progress import progress_bar
from sharpbeam.options.decode import DecodeOptions, MachineOptions, SamplingOptions
from sharpbeam.options.keywords import DecodeKeywords
from sharpbeam.options.schema import option
from sharpbeam.report import quality
from sharpbeam.text.lines import check_readable, column_pairs, file_pairs


@verb(without=("beam_size", "num_hypotheses", "return_attention", SamplingOptions))
def evaluate(
    model: str = argument("A model folder, or the name of a bundled model; a+b is an ensemble."),
    *,
    source: Path | None = option(None, "Source text, one sentence a line; .gz too."),
    reference: Path | None = option(None, "Reference translations, line by line."),
    tsv: Path | None = option(None, "Both in one tab-separated file; .gz too."),
    source_column: int = option(0, "Column of the source in --tsv, from 0.", ge=0),
    target_column: int = option(1, "Column of the reference in --tsv, from 0.", ge=0),
    beam_size: list[int] | None = option(
        None, "Hypotheses kept at each step; may be repeated, to compare. Default: the model's own."
    ),
    json_: bool = option(False, "One JSON object for each beam size."),
    options: Annotated[DecodeKeywords, DecodeOptions],
    machine: MachineOptions,
) -> None:
    """Translate a test set and print BLEU and chrF, with sacreBLEU's signatures, and speed.

    The search is the one that `translate` uses, unless options say otherwise. Words per second are source words,
    separated by spaces, without the time to load the model. Needs sacreBLEU: `pip install sacrebleu`.

    Examples:

    * `sharpbeam evaluate de-en --tsv test.tsv.gz --source-column 1 --target-column 0`
    * `sharpbeam evaluate de-en --tsv test.tsv.gz --beam-size 1 --beam-size 5 --json`
    """
    for size in beam_size or ():
        DecodeOptions().changed(**options).changed(beam_size=size)  # refuses wrong values before the model is loaded
    sources, references = _read(source, reference, tsv, (source_column, target_column))
    quality.load_metrics()  # before minutes of translating
    from sharpbeam.api.translator import Translator

    translator = Translator(model, machine=machine, **options)
    own = translator.defaults
    for choice in [own.changed(beam_size=size) for size in beam_size] if beam_size else [own]:
        title = f"beam {choice.search.beam_size}" + ("" if beam_size else ", the model's own")
        with progress_bar(title, len(sources)) as bar:
            evaluation = quality.evaluate(translator, sources, references, bar, options=choice)
        record = {"model": model, **choice.by_name(), **evaluation.record()}
        print(json.dumps(record) if json_ else f"{title}\n{evaluation.summary()}", flush=True)


def _read(
    source: Path | None, reference: Path | None, tsv: Path | None, columns: tuple[int, int]
) -> tuple[list[str], list[str]]:
    """Sources and references; raises OptionError for one without the other, InputError for text that is empty."""
    check_readable([path for path in (source, reference, tsv) if path])
    if tsv and not source and not reference:
        pairs = list(column_pairs(tsv, *columns))
    elif source and reference and not tsv:
        pairs = list(file_pairs(source, reference))
    else:
        raise OptionError("give either --source FILE and --reference FILE, or --tsv FILE.")
    if not pairs:
        raise InputError(f"{tsv or source} is empty; there is nothing to evaluate.")
    return [left for left, _ in pairs], [right for _, right in pairs]
