"""`sharpbeam compare`: two systems on the same text, and their differences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sharpbeam.cli.flags import with_options
from sharpbeam.cli.test_set import Reference, Source, SourceColumn, Table, TargetColumn, read_test_set
from sharpbeam.errors import OptionError
from sharpbeam.jobs.progress import progress_bar
from sharpbeam.options.decode import MachineOptions


@with_options(without=("device", "isa", "precomputed_embeddings", "precomputed_attention", "merge_states"))
def compare(
    systems: Annotated[
        list[str] | None,
        typer.Argument(help="A and B: each a file of outputs, or a model, perhaps with options: MODEL,NAME=VALUE."),
    ] = None,
    *,
    source: Source = None,
    reference: Reference = None,
    tsv: Table = None,
    source_column: SourceColumn = 0,
    target_column: TargetColumn = 1,
    resamples: Annotated[int, typer.Option(min=1, help="Resampled test sets of the paired bootstrap.")] = 1000,
    show: Annotated[int, typer.Option(min=0, help="Differing sentences to print.")] = 5,
    differences: Annotated[Path | None, typer.Option(help="Write all differing sentences as JSON lines.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
    machine: MachineOptions,
) -> None:
    """Compare two systems: identical outputs, BLEU and chrF with significance, and differences.

    A system is a file of outputs, or a model that translates the sources, with any options of `translate` by name. With
    references, p is the chance of a difference at least as large between equally good systems (paired bootstrap of
    sacreBLEU). Needs `pip install 'sharpbeam[report]'`.

    Examples:

    * `sharpbeam compare de-en de-en,compute_type=int8 --source test.de --reference test.en`
    * `sharpbeam compare de-en,output_layer=exact de-en,output_layer=scan --source test.de`
    * `sharpbeam compare ours.txt theirs.txt --source test.de --reference test.en --json`
    """
    from sharpbeam.report.compare import compare

    if systems is None or len(systems) != 2:
        raise OptionError("give two systems.")
    sources, references = read_test_set(source, reference, tsv, (source_column, target_column), partial=True)
    with progress_bar("translating", None) as bar:
        result = compare(
            systems[0],
            systems[1],
            sources,
            references,
            machine=machine,
            resamples=resamples,
            progress=lambda name, number: bar(number),
        )
    print(json.dumps(result.record()) if as_json else result.summary(show))
    if differences is not None:
        result.write_differences(differences)
