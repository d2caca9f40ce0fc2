"""JSON lines in a job: the text to translate is one field of a record, and its translation another."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sharpbeam.decoding.results import Translation
from sharpbeam.errors import InputError


@dataclass(frozen=True)
class Fields:
    """Names of the fields."""

    field: str = ""  # that is translated; empty: the line itself
    into: str = "translation"

    def text(self, number: int, line: str) -> str:
        """The text of line `number`; empty lines, and fields that are null, have none. Raises InputError."""
        record = self._record(number, line)
        text = record.get(self.field)
        if text is None and (not record or self.field in record):
            return ""
        if not isinstance(text, str):
            raise InputError(f"line {number}: the record has no text {self.field!r}; it has {', '.join(record)}.")
        return text

    def filled(self, number: int, line: str, translation: Translation) -> str:
        """The record with its translation, as a line."""
        if not line.strip():
            return "\n"
        text = translation.text
        if len(translation.hypotheses) > 1:
            text = [answer.text for answer in translation.hypotheses]  # type: ignore[assignment]
        return json.dumps(self._record(number, line) | {self.into: text}, ensure_ascii=False) + "\n"

    @staticmethod
    def _record(number: int, line: str) -> dict[str, Any]:
        if not line.strip():
            return {}
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"line {number} is not JSON: {error}.") from error
        if not isinstance(record, dict):
            raise InputError(f"line {number} is not a JSON object but {type(record).__name__}.")
        return record


@dataclass(frozen=True)
class Shard:
    """One of `count` parts of the input, which follow upon each other: their results joined are that of the whole."""

    index: int = 1
    count: int = 1

    @staticmethod
    def of(text: str) -> Shard:
        """Parse "2/8"; raises InputError."""
        index, slash, count = text.partition("/")
        if not (slash and index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
            raise InputError(f"shard is {text!r}; give i/n with 1 <= i <= n, as 2/8.")
        return Shard(int(index), int(count))

    def lines(self, total: int) -> tuple[int, int]:
        """Its first line and the one after its last."""
        return total * (self.index - 1) // self.count, total * self.index // self.count
