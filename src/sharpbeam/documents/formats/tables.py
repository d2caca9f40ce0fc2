"""JSON and CSV: the strings of named keys or columns are translated, and everything else stays as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import partial

from sharpbeam.documents.formats.interface import Template
from sharpbeam.documents.formats.placeholders import refilled, with_placeholders
from sharpbeam.documents.segment import Built, Part, is_translatable, written
from sharpbeam.errors import InputError, OptionError, nearest

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?|[][{}]')
_HALF = re.compile("[\ud800-\udfff]")


class JsonDocument(Template):
    """JSON, or a JSON object a line: values that are texts, of all keys or of `fields`; spaces and numbers stay."""

    def __init__(self, content: str, fields: Sequence[str] = ()) -> None:
        super().__init__()
        _check_json(content)
        keys, at = [""], 0  # of the objects around; a list has that of its own place
        for match in _TOKEN.finditer(content):
            if match[0] in "[{":
                keys.append(keys[-1])
            elif match[0] in "]}":
                keys.pop()
            elif match[1] is not None:
                keys[-1] = json.loads(match[0][: -len(match[1])])
            if match[0][0] != '"' or match[1] is not None:
                continue
            text = json.loads(match[0])
            if (fields and keys[-1] not in fields) or not is_translatable(text) or _HALF.search(text):
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
    check = partial(json.loads, object_pairs_hook=len, parse_int=len)  # nothing is kept, and a number may be long
    try:
        check(content)
    except RecursionError as error:
        raise InputError("the JSON is nested too deeply.") from error
    except ValueError as whole:
        try:
            for line in content.split("\n"):
                if line.strip():
                    check(line)
        except (ValueError, RecursionError):
            raise InputError(f"the document is not JSON: {whole}.") from whole


class CsvDocument(Template):
    """A table with a first row of names, separated by commas, semicolons or tabs: the cells of the columns `fields`."""

    def __init__(self, content: str, fields: Sequence[str] = ()) -> None:
        super().__init__()
        first = re.split(r"[\r\n]", re.sub(r'"[^"]*"', "", content), maxsplit=1)[0]
        self._separator = max(",;\t", key=first.count)
        self._content = content
        self._cells: list[tuple[int, int, list[Built]]] = []  # where a text stands, with its quotes
        names: list[str] = []
        columns: set[int] = set()
        for row, column, start, end, text in self._read():
            if not row:
                names.append(text)
                continue
            columns = columns or _columns(names, fields)
            if column in columns and is_translatable(text):
                self._cells.append((start, end, self.aside_all(with_placeholders(text))))
        _columns(names, fields)

    def _read(self) -> Iterator[tuple[int, int, int, int, str]]:
        """Row, column, place and text of each cell."""
        pattern = re.compile(
            rf'(?:"([^"]*(?:""[^"]*)*)"|(?!")([^{self._separator}\r\n]*))({self._separator}|\r\n|[\r\n]|\Z)'
        )
        at = row = column = 0
        while at < len(self._content):
            cell = pattern.match(self._content, at)
            if cell is None:
                raise InputError(f"row {row + 1} of the table has a quote without its other one, or text after both.")
            text = cell[2] if cell[1] is None else cell[1].replace('""', '"')
            yield row, column, at, cell.start(3), text
            row, column = (row, column + 1) if cell[3] == self._separator else (row + 1, 0)
            at = cell.end()

    def write(self, translated: Sequence[Sequence[Part]]) -> str:
        """The table; what is not translated stays as it is."""
        texts = iter(written(list(parts), str) for parts in translated)
        parts, at = [], 0
        for start, end, cell in self._cells:
            text = refilled(cell, texts)
            if self._content[start] == '"' or any(sign in text for sign in ('"', self._separator, "\r", "\n")):
                text = '"' + text.replace('"', '""') + '"'
            parts += [self._content[at:start], text]
            at = end
        return "".join(parts) + self._content[at:]


def _columns(names: Sequence[str], fields: Sequence[str]) -> set[int]:
    """The places of the columns `fields`; raises OptionError where one is not there, or there are none."""
    for field in fields:
        if field not in names:
            raise OptionError(f"fields has {field!r}; the columns are {', '.join(names)}.{nearest(field, names)}")
    if not fields:
        raise OptionError(
            f"fields is empty; name the columns to translate, of {', '.join(names)} (a command has --fields A,B)."
        )
    return {index for index, name in enumerate(names) if name in fields}
