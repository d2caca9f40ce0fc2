"""Texts of programs: placeholders, as %s, {name}, ${x} and <b>, and messages of ICU and Java with them.

{n, plural, one {# item} other {# items}}: a translation has placeholders as they are, and the text of each arm is
translated by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sharpbeam.text.segment import Built, Part, SegmentBuilder

TAG = re.compile(r"<(/?)([a-zA-Z][\w:-]*)(?![\w:-])[^<>]*?(/?)>")
PLACEHOLDER = re.compile(
    r"<[a-zA-Z/][^<>]*>|(?<!\d)%(?:\(\w+\)|\d{1,3}\$)?[-+#0]{0,5}\d{0,9}(?:\.\d{1,9})?[hlLqzjt]{0,2}[diouxXeEfFgGcrsa@]"
    r"(?![a-zA-Z])|%%|\$\{[^{}]*\}|\$\w+|\{\{[^{}]*\}\}|\{[^{}]*\}|&\w+;|https?://\S+"
)
_CHOICE = r"\{\s*\w+\s*,\s*(plural|selectordinal|select)\s*,"
_BEGIN = re.compile(_CHOICE + r"(?:\s*offset:\d+)?")
_ARM = re.compile(r"\s*(?:=\d+|[\w-]+)\s*\{")
_END = re.compile(r"\s*\}")
_ARGUMENT = rf"(?!{_CHOICE})\{{[^{{}}]*(?:\{{[^{{}}]*\}}[^{{}}]*)*\}}"
_DOUBLE = re.compile("''(?![{}])")  # an apostrophe
_QUOTED = r"(?<!')'[{}][^']*(?:'|\Z)"
_TEXT = re.compile(rf"(?:{_QUOTED}|{_ARGUMENT}|[^{{}}])+")
_KEPT = re.compile(rf"{_QUOTED}|{_ARGUMENT}|{PLACEHOLDER.pattern}")
_KEPT_NUMBER = re.compile(rf"#|{_KEPT.pattern}")  # of a plural
Piece = tuple[str, str, str]  # text, fixed, open, close or point; what stands there; the name of a tag


def pieces(text: str, pattern: re.Pattern[str] = PLACEHOLDER) -> Iterator[Piece]:
    """The parts of a text: what `pattern` finds is fixed, or what its group is named after, and tags are markup."""
    at = 0
    for match in pattern.finditer(text):
        yield "text", text[at : match.start()], ""
        raw, at = match[0], match.end()
        tag = TAG.fullmatch(raw)
        if tag is None:
            yield match.lastgroup or "fixed", raw, raw.strip("{\\01}")
        else:
            yield "point" if tag[3] else "close" if tag[1] else "open", raw, tag[2].lower()
    yield "text", text[at:], ""


def with_placeholders(text: str, pattern: re.Pattern[str] = PLACEHOLDER) -> list[Built]:
    """A text as segments in which everything that `pattern` finds is fixed, and tags are markup; a line stays one."""
    built = list[Built]()
    for number, line in enumerate(text.split("\n")):
        builder = SegmentBuilder(collapse=False)
        for kind, raw, name in pieces(line, pattern):
            add_piece(builder, kind, raw, raw, name)
        built += ["\n", *builder.build()] if number else builder.build()
    return built


def add_piece(builder: SegmentBuilder, kind: str, text: str, raw: str, name: str) -> None:
    """Add text, or markup that is written as `raw`, to a builder."""
    if kind == "text":
        builder.add(text)
    elif kind == "fixed":
        builder.fixed(text, raw)
    elif kind in ("open", "close"):
        (builder.open if kind == "open" else builder.close)(name, raw)
    elif kind in ("point", "break"):
        (builder.point if kind == "point" else builder.boundary)(raw)


def message_parts(text: str) -> list[Built] | None:
    """A text with braces: its texts as segments, what is between them as markup; None for one that is no message."""
    built, at = list[Built](), 0
    around = list[str]()  # kinds of choices, each with an arm in it, or without
    if "{" not in text:
        return None
    while at < len(text):
        in_choice = bool(around) and around[-1] != "arm"
        if part := (_ARM if in_choice else _TEXT).match(text, at):
            if in_choice:
                around.append("arm")
                built.append(Part(part[0], markup=True))
            else:
                number = len(around) > 1 and around[-2] != "select"
                built += with_placeholders(_DOUBLE.sub("'", part[0]), _KEPT_NUMBER if number else _KEPT)
        elif part := None if in_choice else _BEGIN.match(text, at):
            around.append(part[1])
            built.append(Part(part[0], markup=True))
        elif around and (part := _END.match(text, at)):
            around.pop()
            built.append(Part(part[0], markup=True))
        else:
            return None
        at = part.end()
    return None if around else built
