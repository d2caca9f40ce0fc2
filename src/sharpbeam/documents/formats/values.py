"""Documents with values in them: each is decoded from its escapes, translated, and written with them again.

Lines of plain text, .properties of Java, .strings of Apple, and catalogues of Gettext.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

from sharpbeam.documents.formats.interface import Languages, Template
from sharpbeam.documents.formats.messages import message_parts, with_placeholders
from sharpbeam.errors import InputError
from sharpbeam.text.segment import Built, Escape, Part, Segment, is_translatable, written

_ESCAPE = re.compile(r"\\(?:[uU]([0-9a-fA-F]{4})|(.))", re.S)
_LINE = re.compile(r"[^\r\n]+")
_PROPERTY = re.compile(
    r"^[ \t\f]*(?![#!\s])(?:[^\\\s=:]|\\.)+(?:[ \t\f]*[=:][ \t\f]*|[ \t\f]+)((?:[^\\\r\n]|\\(?:\r\n|.))*)", re.M | re.S
)
_CONTINUED = re.compile(r"\\(?:\r\n|\r|\n)[ \t\f]*|(\\.)", re.S)
_ENTRY = re.compile(
    r"""\s+|;|/\*.*?\*/|//[^\r\n]*|("[^"\\]*(?:\\.[^"\\]*)*"|[\w.$/-]+)(?:\s*=\s*"([^"\\]*(?:\\.[^"\\]*)*)")?(?=\s*;)""",
    re.S,
)
_STATEMENT = re.compile(
    r'\s*(?:(msgctxt|msgid|msgid_plural|msgstr)(?:\[(\d{1,3})\])?\s*)?"([^"\\]*(?:\\.[^"\\]*)*)"\s*'
)
_SIGNS = '\\"'  # that have a backslash before them
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def unescaped(text: str) -> str:
    r"""A text without the escapes of program files: \n, \t, \u00e9, and a backslash before any other sign."""
    text = _ESCAPE.sub(lambda sign: chr(int(sign[1], 16)) if sign[1] else _LETTERS.get(sign[2], sign[2]), text)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # a letter may have two escapes


def escaped(text: str, signs: str) -> str:
    """A text with a backslash before each of `signs`, and with escapes for line ends and tabs."""
    text = re.sub(f"([{re.escape(signs)}])", r"\\\1", text)
    for letter, sign in _LETTERS.items():
        text = text.replace(sign, "\\" + letter)
    return text


class ValuesDocument(Template):
    """A document of values; what is outside of them stays as it is, byte for byte."""

    messages = False  # values may be messages of ICU
    quotes = re.compile("''")  # in messages that have it, an apostrophe is written twice

    def __init__(self, content: str) -> None:
        super().__init__(content)
        self._content = content
        self._done = 0  # of the last value

    def value(self, start: int, end: int, text: str) -> None:
        """Add the value in [start, end), which is `text` and comes after those before."""
        if is_translatable(text):
            message = message_parts(text) if self.messages else None
            escape = partial(re.sub, "''?", "''") if message is not None and self.quotes.search(text) else str
            self.put(start, end, message or self.parts(text), partial(self._value, self._content[start:end], escape))

    def put(self, start: int, end: int, built: Sequence[Built], write: Callable[[list[Part]], str]) -> None:
        """Write translated parts in [start, end)."""
        self.keep(self._content[self._done : start])
        self.keep(self.mark(built, write))
        self._done = end

    def _value(self, raw: str, escape: Escape, parts: list[Part]) -> str:
        return self.encoded(written(parts, escape), raw)

    def parts(self, text: str) -> list[Built]:
        """The segments of a value that is no message, and what is between them."""
        return with_placeholders(text)

    def encoded(self, text: str, raw: str) -> str:
        """How a text is written where `raw` was."""
        raise NotImplementedError

    def write(self, translated: Sequence[Sequence[Part]], languages: Languages = ("", "")) -> str:
        """The document."""
        return super().write(translated, languages) + self._content[self._done :]


class TextDocument(ValuesDocument):
    """Plain text."""

    def __init__(self, content: str) -> None:
        super().__init__(content)
        for line in _LINE.finditer(content):
            if text := line[0].strip():
                start = line.start() + line[0].index(text)
                self.value(start, start + len(text), text)

    def parts(self, text: str) -> list[Built]:
        """The line as it stands."""
        return [Segment(text)]

    def encoded(self, text: str, raw: str) -> str:
        """A line stays one."""
        return " ".join(text.splitlines())


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
