"""The test set of a command line: sources and their reference translations, from two files or from columns of one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sharpbeam.errors import InputError, OptionError
from sharpbeam.text.lines import check_readable
from sharpbeam.text.pairs import column_pairs, file_pairs

Source = Annotated[Path | None, typer.Option(help="Source text, one sentence a line; .gz too.")]
Reference = Annotated[Path | None, typer.Option(help="Reference translations, line by line.")]
Table = Annotated[Path | None, typer.Option(help="Both in one tab-separated file; .gz too.")]
SourceColumn = Annotated[int, typer.Option(min=0, help="Column of the source in --tsv, from 0.")]
TargetColumn = Annotated[int, typer.Option(min=0, help="Column of the reference in --tsv, from 0.")]


def read_test_set(
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
