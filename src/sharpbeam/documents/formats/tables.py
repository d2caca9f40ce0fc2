"""JSON and CSV: the strings of named keys or columns are translated, and everything else stays as it is."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence

from sharpbeam.documents.formats.interface import Template
from sharpbeam.documents.formats.placeholders import with_placeholders
from sharpbeam.documents.segment import Part, is_translatable, written
from sharpbeam.errors import InputError, OptionError, nearest

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"(\s*:)?')


class JsonDocument(Template):
    """JSON, or a JSON object a line: values that are texts, of all keys or of `fields`; spaces and numbers stay."""

    def __init__(self, content: str, fields: Sequence[str] = ()) -> None:
        super().__init__()
        _check_json(content)
        key, at = "", 0
        for match in _STRING.finditer(content):
            if match[1] is not None:
                key = json.loads(match[0][: -len(match[1])])
                continue
            text = json.loads(match[0])
            if (fields and key not in fields) or not is_translatable(text):
                continue
            self.keep(content[at : match.start()] + '"')
            self.add(with_placeholders(text), _inside)
            self.keep('"')
            at = match.end()
        self.keep(content[at:])

    def add(self, built: Sequence[object], escape: object = None) -> None:
        """Markup is escaped here too: it stands in a string."""
        super().add([item.text if isinstance(item, Part) else item for item in built], _inside)  # type: ignore[misc]

    def write(self, translated: Sequence[Sequence[Part]]) -> str:
        """The JSON."""
        return self.filled([_inside(written(list(parts), str)) for parts in translated])


def _inside(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _check_json(content: str) -> None:
    try:
        json.loads(content)
    except RecursionError as error:
        raise InputError("the JSON is nested too deeply.") from error
    except ValueError as whole:
        try:
            for line in content.splitlines():
                if line.strip():
                    json.loads(line)
        except (ValueError, RecursionError):
            raise InputError(f"the document is not JSON: {whole}.") from whole


class CsvDocument(Template):
    """A table with a first row of names, separated by commas, semicolons or tabs: the cells of the columns `fields`."""

    def __init__(self, content: str, fields: Sequence[str] = ()) -> None:
        super().__init__()
        first = content.split("\n", 1)[0]
        self._separator = max("\t;,", key=first.count)
        self._end = "\r\n" if "\r\n" in content else "\n"
        try:
            self._rows = list(csv.reader(io.StringIO(content, newline=""), delimiter=self._separator, strict=True))
        except csv.Error as error:
            raise InputError(f"the document is not a table of separated values: {error}.") from error
        names = self._rows[0] if self._rows else []
        for field in fields:
            if field not in names:
                raise OptionError(f"fields has {field!r}; the columns are {', '.join(names)}.{nearest(field, names)}")
        if not fields:
            raise OptionError(f"fields is empty; name the columns to translate, of {', '.join(names)}.")
        columns = [index for index, name in enumerate(names) if name in fields]
        self._cells: list[tuple[int, int, Template]] = []
        for number, row in enumerate(self._rows[1:], 1):
            for column in columns:
                if column < len(row) and is_translatable(row[column]):
                    cell = Template()
                    cell.add(with_placeholders(row[column]), str)
                    self._cells.append((number, column, cell))
                    for segment in cell.segments:
                        self.put(segment)

    def write(self, translated: Sequence[Sequence[Part]]) -> str:
        """The table."""
        texts = iter(written(list(parts), str) for parts in translated)
        rows = [list(row) for row in self._rows]
        for number, column, cell in self._cells:
            rows[number][column] = cell.filled([next(texts) for _ in cell.segments])
        out = io.StringIO(newline="")
        csv.writer(out, delimiter=self._separator, lineterminator=self._end).writerows(rows)
        return out.getvalue()
