"""Gettext catalogues: a msgstr without a text gets one; everything else stays as it is, byte for byte."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sharpbeam.documents.formats.interface import Template
from sharpbeam.documents.formats.placeholders import refilled, with_placeholders
from sharpbeam.documents.segment import Built, Part, is_translatable, written
from sharpbeam.errors import InputError

_STATEMENT = re.compile(
    r'\s*(?:(msgctxt|msgid|msgid_plural|msgstr)(?:\[(\d{1,3})\])?\s*)?"([^"\\]*(?:\\.[^"\\]*)*)"\s*'
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}


class PoDocument(Template):
    """A catalogue. Plural forms all but the first are translations of msgid_plural."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self._end = "\r\n" if "\r\n" in content else "\n"
        self._lines = content.split("\n")
        self._forms: list[tuple[int, int, list[Built]]] = []  # lines of a msgstr, and the text for it
        texts: dict[str, list[str]] = {}  # of the statements read last
        name, number, first = "", "", 0
        for at, line in enumerate([*self._lines, ""]):
            statement = _STATEMENT.fullmatch(line)
            if statement is None and line.strip() and not line.lstrip().startswith("#"):
                raise InputError(f"the document is not a PO file: line {at + 1} is {line[:60]!r}.")
            if statement is None or statement[1]:
                if name == "msgstr" and not any(texts[name]):
                    source = texts.get("msgid_plural" if number not in ("", "0") else "msgid", [])
                    self._add("".join(source), first, at)
                name, number, first = statement[1] if statement else "", statement[2] or "" if statement else "", at
                texts[name] = []
            if statement is not None:
                texts.setdefault(name, []).append(statement[3])
        if "msgid" not in texts:
            raise InputError("the document has no msgid; it is not a PO file.")

    def _add(self, source: str, first: int, last: int) -> None:
        text = re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[0]), source)
        if is_translatable(text):
            self._forms.append((first, last, self.aside_all(with_placeholders(text))))

    def write(self, translated: Sequence[Sequence[Part]]) -> str:
        """The catalogue."""
        texts = iter(written(list(parts), str) for parts in translated)
        lines, at = list[str](), 0
        for first, last, form in self._forms:
            text = refilled(form, texts)
            head = self._lines[first].partition('"')[0]
            own = [_quoted(line) for line in re.findall(r"[^\n]*\n|[^\n]+", text)]
            own = [head + own[0]] if len(own) == 1 else [head + '""', *own]
            tail = "\r" * self._lines[last - 1].endswith("\r")  # the last line may have no end
            lines += [*self._lines[at:first], self._end.join(own) + tail]
            at = last
        return "\n".join([*lines, *self._lines[at:]])


def _quoted(text: str) -> str:
    for sign, letter in (("\\", "\\"), ('"', '"'), ("\n", "n"), ("\t", "t"), ("\r", "r")):
        text = text.replace(sign, "\\" + letter)
    return f'"{text}"'
