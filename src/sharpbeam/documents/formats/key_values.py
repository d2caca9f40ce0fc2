"""Files of keys and values: .properties of Java, and .strings of Apple."""

from __future__ import annotations

import re

from sharpbeam.documents.formats.values import ValuesDocument, escaped, unescaped
from sharpbeam.errors import InputError

_PROPERTY = re.compile(
    r"^[ \t\f]*(?![#!\s])(?:[^\\\s=:]|\\.)+(?:[ \t\f]*[=:][ \t\f]*|[ \t\f]+)((?:[^\\\r\n]|\\(?:\r\n|.))*)", re.M | re.S
)
_CONTINUED = re.compile(r"\\(?:\r\n|\r|\n)[ \t\f]*|(\\.)", re.S)
_ENTRY = re.compile(
    r"""\s+|;|/\*.*?\*/|//[^\r\n]*|("[^"\\]*(?:\\.[^"\\]*)*"|[\w.$/-]+)(?:\s*=\s*"([^"\\]*(?:\\.[^"\\]*)*)")?(?=\s*;)""",
    re.S,
)


class PropertiesDocument(ValuesDocument):
    """Properties of Java; values with {0} and the like are messages, in which an apostrophe is written twice.

    Letters are written as they are if such a letter is in the file, and by their number otherwise: a file in ASCII or
    Latin-1 stays one.
    """

    messages = True
    quotes = re.compile(r"''|\{\d")

    def __init__(self, content: str) -> None:
        super().__init__(content)
        highest = max(content, default="")
        self._raw = "[\0-\x7f]" if highest <= "\x7f" else "[\0-\xff]" if highest <= "\xff" else "(?s:.)"
        for entry in _PROPERTY.finditer(content):
            joined = _CONTINUED.sub(lambda part: part[1] or "", entry[1])
            self.value(*entry.span(1), unescaped(joined))

    def encoded(self, text: str, raw: str) -> str:
        """A value in one line."""
        text = re.sub(r"\A ", r"\\ ", escaped(text, "\\"))
        return "".join(sign if re.match(self._raw, sign) else _number(sign) for sign in text)


def _number(sign: str) -> str:
    units = sign.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


class StringsDocument(ValuesDocument):
    """Strings of Apple: "key" = "value"; with comments."""

    def __init__(self, content: str) -> None:
        super().__init__(content)
        at = 0
        while at < len(content):
            entry = _ENTRY.match(content, at)
            if entry is None:
                line = content.count("\n", 0, at) + 1
                raise InputError(f'line {line} is {content[at : at + 40]!r}...; entries are "key" = "value";')
            if entry[2]:
                self.value(*entry.span(2), unescaped(entry[2]))
            at = entry.end()

    def encoded(self, text: str, raw: str) -> str:
        """The inside of a string; line ends in it stay what they are."""
        value = escaped(text, '\\"')
        return value.replace("\\n", "\n") if "\n" in raw and "\\n" not in raw else value
