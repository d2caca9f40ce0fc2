"""Reading parallel text: two files line by line, or two columns of one tab-separated file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from sharpbeam.errors import InputError
from sharpbeam.text.lines import STANDARD_INPUT, DecodingErrors, StandardInput, read_lines

Pair = tuple[str, str]


def file_pairs(
    source: Path, target: Path, errors: DecodingErrors = "strict", encoding: str = "utf-8"
) -> Iterator[Pair]:
    """(source, target) lines of two files; InputError if one of them ends before the other."""
    lines = zip_longest(*(read_lines(path, errors, encoding=encoding) for path in (source, target)))
    for number, (left, right) in enumerate(lines, 1):
        if left is None or right is None:
            shorter, longer = (source, target) if left is None else (target, source)
            raise InputError(
                f"{shorter} has {number - 1} lines, but {longer} has more; they must have the same number."
            )
        yield left, right


def column_pairs(
    path: Path | None,
    source_column: int,
    target_column: int,
    errors: DecodingErrors = "strict",
    standard_input: StandardInput | None = None,
    encoding: str = "utf-8",
) -> Iterator[Pair]:
    """(source, target) from columns, counted from 0, of a tab-separated file (None = standard input)."""
    last = max(source_column, target_column)
    for number, line in enumerate(read_lines(path, errors, standard_input, encoding), 1):
        columns = line.split("\t")
        if len(columns) <= last:
            raise InputError(
                f"{path or STANDARD_INPUT}, line {number}: columns 0 to {last} are needed, separated by tabs; "
                f"the line has {len(columns)}."
            )
        yield columns[source_column], columns[target_column]
