"""`sharpbeam compare`: two systems on the same text, and their differences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sharpbeam.cli.flags import with_options
from sharpbeam.errors import OptionError
from sharpbeam.jobs.progress import progress_bar
from sharpbeam.options.decode import MachineOptions
from sharpbeam.text.lines import check_readable, read_all
from sharpbeam.text.pairs import column_pairs


@with_options(without=("device", "isa", "precomputed_embeddings", "precomputed_attention", "merge_states"))
def compare(
    systems: Annotated[
        list[str] | None,
        typer.Argument(help="A and B: each a file of outputs, or a model, perhaps with options: MODEL,NAME=VALUE."),
    ] = None,
    *,
    source: Annotated[Path | None, typer.Option(help="Source text, one sentence a line; .gz too.")] = None,
    reference: Annotated[Path | None, typer.Option(help="Reference translations, line by line: for BLEU.")] = None,
    tsv: Annotated[Path | None, typer.Option(help="Both in one tab-separated file; .gz too.")] = None,
    source_column: Annotated[int, typer.Option(min=0, help="Column of the source in --tsv, from 0.")] = 0,
    target_column: Annotated[int, typer.Option(min=0, help="Column of the reference in --tsv, from 0.")] = 1,
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
    sources, references = _test_set(source, reference, tsv, source_column, target_column)
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


def _test_set(
    source: Path | None, reference: Path | None, tsv: Path | None, source_column: int, target_column: int
) -> tuple[list[str], list[str]]:
    """Sources and references, empty if they are not given."""
    if tsv and (source or reference):
        raise OptionError("give either --source and --reference, or --tsv.")
    check_readable([path for path in (source, reference, tsv) if path])
    if tsv:
        pairs = list(column_pairs(tsv, source_column, target_column))
        return [left for left, _ in pairs], [right for _, right in pairs]
    return list(read_all([source])) if source else [], list(read_all([reference])) if reference else []
