"""Placeholders in the texts of programs: %s, {name}, ${x}, <b>, which a translation must have as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sharpbeam.documents.segment import Built, SegmentBuilder

_TAG = re.compile(r"<(/?)([a-zA-Z][\w:-]*)(?![\w:-])[^<>]*?(/?)>")
PLACEHOLDER = re.compile(
    r"<[a-zA-Z/][^<>]*>|%(?:\(\w+\)|\d{1,3}\$)?[-+ #0]{0,5}\d{0,9}(?:\.\d{1,9})?[hlLqzjt]{0,2}[diouxXeEfFgGcrsa@]"
    r"(?![a-zA-Z])|%%|\$\{[^{}]*\}|\$\w+|\{\{[^{}]*\}\}|\{[^{}]*\}|&\w+;|https?://\S+"
)


Piece = tuple[str, str, str]  # text, fixed, open, close or point; what stands there; the name of a tag


def pieces(text: str, pattern: re.Pattern[str] = PLACEHOLDER) -> Iterator[Piece]:
    """The parts of a text: what `pattern` finds is fixed, or what its group is named after, and tags are markup."""
    at = 0
    for match in pattern.finditer(text):
        yield "text", text[at : match.start()], ""
        raw, at = match[0], match.end()
        tag = _TAG.fullmatch(raw)
        if tag is None:
            yield match.lastgroup or "fixed", raw, raw.strip("{\\01}")
        else:
            yield "point" if tag[3] else "close" if tag[1] else "open", raw, tag[2].lower()
    yield "text", text[at:], ""


def with_placeholders(text: str, pattern: re.Pattern[str] = PLACEHOLDER) -> list[Built]:
    """A text as segments in which everything that `pattern` finds is fixed, and tags are markup; a line stays one."""
    first, *others = text.split("\n")
    built = _line(first, pattern)
    for line in others:
        built += ["\n", *_line(line, pattern)]
    return built


def _line(text: str, pattern: re.Pattern[str]) -> list[Built]:
    builder = SegmentBuilder(collapse=False)
    for kind, raw, name in pieces(text, pattern):
        add_piece(builder, kind, raw, raw, name)
    return builder.build()


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
