"""Parquet files: a column is translated into another one, a row group at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sharpbeam.errors import InputError, OutputError, nearest, needs_extra
from sharpbeam.jobs.records import Shard
from sharpbeam.jobs.translate_file import Model, open_translator
from sharpbeam.options.decode import MachineOptions
from sharpbeam.options.keywords import DecodeKeywords, Unpack
from sharpbeam.storage.atomic import replacing_file


def translate_parquet(
    model: Model,
    source: str | Path,
    output: str | Path,
    *,
    field: str,
    into: str = "translation",
    shard: str = "1/1",
    progress: Callable[[int], None] | None = None,
    machine: MachineOptions | None = None,
    **options: Unpack[DecodeKeywords],
) -> int:
    """Write `source` with a column `into`, the translations of the column `field`; returns the number of rows.

    Memory is that of one row group. `shard` "2/8" takes the second eighth of the row groups. `output` appears when it
    is complete. Empty values stay empty. Raises InputError for a file that is not Parquet or lacks the column, and
    OutputError, OptionError or ModelError.
    """
    with needs_extra("reading Parquet", "bulk"):
        import pyarrow as pa
        from pyarrow import parquet
    part, rows = Shard.of(shard), 0
    try:
        file: Any = parquet.ParquetFile(source)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot read {source}: {error}.") from error
    schema = file.schema_arrow
    names = [name for name in schema.names if pa.types.is_string(schema.field(name).type)]
    if field not in names:
        raise InputError(f"field is {field!r}; the columns of text are {', '.join(names)}.{nearest(field, names)}")
    if into in schema.names:
        raise InputError(f"into is {into!r}, a column that {source} has; give another name.")
    translator = open_translator(model, machine)
    try:
        wider = schema.append(pa.field(into, pa.string()))
        with replacing_file(Path(output)) as new, parquet.ParquetWriter(new, wider) as writer:
            for group in range(*part.lines(file.num_row_groups)):
                table = file.read_row_group(group)
                texts = ["" if text is None else text for text in table.column(field).to_pylist()]
                translations = translator.translate(texts, progress=progress, **options)
                writer.write_table(table.append_column(into, pa.array([one.text for one in translations], pa.string())))
                rows += len(texts)
    except OSError as error:
        raise OutputError(f"cannot write {output}: {error.strerror or error}.") from error
    return rows
