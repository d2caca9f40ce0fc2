"""`sharpbeam compare`: two systems on the same text, and the assessment of their differences."""

from __future__ import annotations

import dataclasses
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


@with_options(without=("device", "backend", "isa", "precomputed_embeddings", "precomputed_attention", "merge_states"))
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
    sheet: Annotated[Path | None, typer.Option(help="Folder for a blind sheet of differing sentences.")] = None,
    items: Annotated[int, typer.Option(min=1, help="Items of the sheet, at most.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Draws the items of the sheet and their sides.")] = 1,
    scores: Annotated[list[Path] | None, typer.Option(help="A filled sheet; may be repeated. Needs --key.")] = None,
    key: Annotated[Path | None, typer.Option(help="The key.json that was written with the sheet.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
    machine: MachineOptions,
) -> None:
    """Compare two systems: identical outputs, BLEU and chrF with significance, differences, blind assessment.

    A system is a file of outputs, or a model that translates the sources, with any options of `translate` by name. With
    references, p is the chance of a difference at least as large between equally good systems (paired bootstrap of
    sacreBLEU). The sheet (sheet.csv, or sheet.html for a browser) shows a source and both outputs without names;
    annotators score each from 0 to 100. Filled sheets are tested by Wilcoxon's rank-sum and signed-rank tests.
    Needs `pip install 'sharpbeam[report]'`.

    Examples:

    * `sharpbeam compare de-en de-en,compute_type=int8 --source test.de --reference test.en`
    * `sharpbeam compare de-en,output_layer=exact de-en,output_layer=scan --source test.de --sheet assessment`
    * `sharpbeam compare ours.txt theirs.txt --source test.de --reference test.en --json`
    * `sharpbeam compare --key assessment/key.json --scores anna.csv --scores ben.csv`
    """
    from sharpbeam.report import assessment
    from sharpbeam.report.compare import compare

    if scores or key:
        if not scores or not key or systems:
            raise OptionError("give --scores FILE and --key FILE together, and no systems.")
        found = assessment.assess(scores, key)
        print(json.dumps(dataclasses.asdict(found)) if as_json else found.summary())
        return
    if systems is None or len(systems) != 2:
        raise OptionError("give two systems, or --scores and --key.")
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
    if sheet is not None:
        count = assessment.write_sheets(result, sheet, items, seed)
        print(f"{sheet}: {count} items. Keep {assessment.KEY} from the annotators.")


def _test_set(
    source: Path | None, reference: Path | None, tsv: Path | None, source_column: int, target_column: int
) -> tuple[list[str], list[str]]:
    """Sources and references, empty where they are not given."""
    if tsv and (source or reference):
        raise OptionError("give either --source and --reference, or --tsv.")
    check_readable([path for path in (source, reference, tsv) if path])
    if tsv:
        pairs = list(column_pairs(tsv, source_column, target_column))
        return [left for left, _ in pairs], [right for _, right in pairs]
    return list(read_all([source])) if source else [], list(read_all([reference])) if reference else []
