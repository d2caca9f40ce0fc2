"""JSON, ARB and CSV: the strings of named keys or columns are translated, and everything else stays as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import takewhile

from sharpbeam.documents.formats.html import relabeled
from sharpbeam.documents.formats.interface import Languages
from sharpbeam.documents.formats.values import ValuesDocument
from sharpbeam.errors import InputError, OptionError, nearest
from sharpbeam.text.json import HALF
from sharpbeam.text.segment import Part

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?|[][{}]')
_LOCALE = re.compile(r'("@@locale"\s*:\s*")([\w-]+)')


class JsonDocument(ValuesDocument):
    """JSON, or a JSON object a line: values that are texts, of all keys or of `fields`; spaces and numbers stay."""

    messages = True

    def __init__(self, content: str, fields: Sequence[str] = ()) -> None:
        super().__init__(content)
        _check_json(content)
        keys, seen = [""], set[str]()  # keys of the objects around; a list has that of its own place
        for match in _TOKEN.finditer(content):
            if match[0] in "[{":
                keys.append(keys[-1])
            elif match[0] in "]}":
                keys.pop()
            elif match[1] is not None:
                keys[-1] = json.loads(match[0][: -len(match[1])])
                seen.add(keys[-1])
            elif match[0][0] == '"' and self.is_translated(keys) and (not fields or keys[-1] in fields):
                text = json.loads(match[0])
                if not HALF.search(text):
                    self.value(match.start() + 1, match.end() - 1, text)
        for field in {*fields} - seen if seen else ():
            raise OptionError(f"fields has {field!r}; the document has no such key.{nearest(field, seen)}")

    def is_translated(self, keys: Sequence[str]) -> bool:
        """Whether the text under some keys is one to translate."""
        return True

    def encoded(self, text: str, raw: str) -> str:
        """The inside of a string."""
        return json.dumps(text, ensure_ascii=False)[1:-1]


class ArbDocument(JsonDocument):
    """Texts of an application in Flutter: what is under keys that begin with @ is about them."""

    def is_translated(self, keys: Sequence[str]) -> bool:
        """Whether the outermost key is a name."""
        return not keys[1].startswith("@") if len(keys) > 1 else False

    def write(self, translated: Sequence[Sequence[Part]], languages: Languages = ("", "")) -> str:
        """The texts, and the locale."""

        def locale(code: re.Match[str]) -> str:
            new = relabeled(code[2], languages)
            return code[1] + (new if new == code[2] else new.replace("-", "_"))

        return _LOCALE.sub(locale, super().write(translated, languages), count=1)


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


class CsvDocument(ValuesDocument):
    """A table with a first row of names, separated by commas, semicolons or tabs: the cells of the columns `fields`."""

    def __init__(self, content: str, fields: Sequence[str] = ()) -> None:
        super().__init__(content)
        first = re.split(r"[\r\n]", re.sub(r'"[^"]*"', "", content), maxsplit=1)[0]
        self._separator = max(",;\t", key=first.count)
        names = [cell[4] for cell in takewhile(lambda cell: cell[0] == 0, self._read())]
        columns = _columns(names, fields)
        for row, column, start, end, text in self._read():
            if row and column in columns:
                self.value(start, end, text)

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

    def encoded(self, text: str, raw: str) -> str:
        """A cell, in quotes if it was or has to be."""
        if raw.startswith('"') or any(sign in text for sign in ('"', self._separator, "\r", "\n")):
            return '"' + text.replace('"', '""') + '"'
        return text


def _columns(names: Sequence[str], fields: Sequence[str]) -> set[int]:
    """The places of the columns `fields`; raises OptionError where one is not there, or there are none."""
    for field in fields:
        if field not in names:
            raise OptionError(f"fields has {field!r}; the columns are {', '.join(names)}.{nearest(field, names)}")
    if not fields:
        every = ", ".join(names) or "(none)"
        raise OptionError(f"fields is empty; name the columns to translate, of {every} (a command has --fields A,B).")
    return {index for index, name in enumerate(names) if name in fields}
