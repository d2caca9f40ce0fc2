"""`sharpbeam evaluate`: BLEU, chrF and speed on a test set."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from sharpbeam.cli.flags import with_options
from sharpbeam.cli.test_set import Reference, Source, SourceColumn, Table, TargetColumn, read_test_set
from sharpbeam.jobs.progress import progress_bar
from sharpbeam.options.decode import DecodeOptions, MachineOptions, SamplingOptions
from sharpbeam.options.keywords import DecodeKeywords
from sharpbeam.report import quality


@with_options(without=("beam_size", "num_hypotheses", "return_attention", SamplingOptions))
def evaluate(
    model: Annotated[str, typer.Argument(help="A model folder, or the name of a bundled model; a+b is an ensemble.")],
    *,
    source: Source = None,
    reference: Reference = None,
    tsv: Table = None,
    source_column: SourceColumn = 0,
    target_column: TargetColumn = 1,
    beam_size: Annotated[
        list[int] | None,
        typer.Option(help="Hypotheses kept at each step; may be repeated, to compare. Default: the model's own."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each beam size.")] = False,
    options: Annotated[DecodeKeywords, DecodeOptions],
    machine: MachineOptions,
) -> None:
    """Translate a test set and print BLEU and chrF, with sacreBLEU's signatures, and speed.

    The search is the one that `translate` uses, unless options say otherwise. Words per second are source words,
    separated by spaces, without the time to load the model. Needs sacreBLEU: `pip install sacrebleu`.

    Examples:

    * `sharpbeam evaluate de-en --source test.de --reference test.en`
    * `sharpbeam evaluate de-en --tsv test.tsv.gz --source-column 1 --target-column 0`
    * `sharpbeam evaluate de-en --tsv test.tsv.gz --beam-size 1 --beam-size 5 --json`
    """
    for size in beam_size or ():
        DecodeOptions().changed(**options).changed(beam_size=size)  # refuses wrong values before the model is loaded
    sources, references = read_test_set(source, reference, tsv, (source_column, target_column))
    quality.load_metrics()  # before minutes of translating
    from sharpbeam.api.translator import Translator

    translator = Translator(model, machine=machine, **options)
    own = translator.defaults
    for choice in [own.changed(beam_size=size) for size in beam_size] if beam_size else [own]:
        title = f"beam {choice.search.beam_size}" + ("" if beam_size else ", the model's own")
        with progress_bar(title, len(sources)) as bar:
            evaluation = quality.evaluate(translator, sources, references, bar, options=choice)
        record = {"model": model, **choice.by_name(), **evaluation.record()}
        print(json.dumps(record) if as_json else f"{title}\n{evaluation.summary()}", flush=True)
