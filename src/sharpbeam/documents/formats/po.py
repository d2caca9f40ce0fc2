"""Gettext catalogues: a msgstr without a text gets one; everything else stays as it is, byte for byte."""

from __future__ import annotations

import re

from sharpbeam.documents.formats.values import ValuesDocument, escaped, unescaped
from sharpbeam.errors import InputError

_STATEMENT = re.compile(
    r'\s*(?:(msgctxt|msgid|msgid_plural|msgstr)(?:\[(\d{1,3})\])?\s*)?"([^"\\]*(?:\\.[^"\\]*)*)"\s*'
)
_SIGNS = '\\"'  # that have a backslash before them


class PoDocument(ValuesDocument):
    """A catalogue. Plural forms all but the first are translations of msgid_plural."""

    def __init__(self, content: str) -> None:
        super().__init__(content)
        self._end = "\r\n" if "\r\n" in content else "\n"
        texts: dict[str, list[str]] = {}  # of the statements read last
        name, number, first, last, place = "", "", 0, 0, 0
        for at, line in enumerate([*content.split("\n"), ""]):
            statement = _STATEMENT.fullmatch(line)
            if statement is None and line.strip() and not line.lstrip().startswith("#"):
                raise InputError(f"the document is not a PO file: line {at + 1} is {line[:60]!r}.")
            if statement is None or statement[1]:
                if name == "msgstr" and not any(texts[name]):
                    source = texts.get("msgid_plural" if number not in ("", "0") else "msgid", [])
                    self.value(first, last, unescaped("".join(source)))
                name, number, first = statement[1] if statement else "", statement[2] or "" if statement else "", place
                texts[name] = []
            if statement is not None:
                texts.setdefault(name, []).append(statement[3])
            last = place + len(line.removesuffix("\r"))
            place += len(line) + 1
        if "msgid" not in texts:
            raise InputError("the document has no msgid; it is not a PO file.")

    def encoded(self, text: str, raw: str) -> str:
        """The statement with a text, a line of it in each line."""
        head = raw.partition('"')[0]
        own = [f'"{escaped(line, _SIGNS)}"' for line in re.findall(r"[^\n]*\n|[^\n]+", text)]
        return self._end.join([head + own[0]] if len(own) == 1 else [head + '""', *own])
