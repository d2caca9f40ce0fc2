"""Placeholders in the texts of programs: %s, {name}, ${x}, <b>, which a translation must have as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sharpbeam.documents.segment import Built, Part, Segment, SegmentBuilder

_TAG = re.compile(r"<(/?)([a-zA-Z][\w:-]*)(?![\w:-])[^<>]*?(/?)>")
_PLACEHOLDER = re.compile(
    r"<[a-zA-Z/][^<>]*>|%(?:\(\w+\))?[-+ #0]{0,5}\d{0,9}(?:\.\d{1,9})?[hlL]{0,2}[diouxXeEfFgGcrsa@](?![a-zA-Z])|%%|"
    r"\$\{[^{}]*\}|\$\w+|\{\{[^{}]*\}\}|\{[^{}]*\}|&\w+;|https?://\S+"
)


def with_placeholders(text: str, pattern: re.Pattern[str] = _PLACEHOLDER) -> list[Built]:
    """A text as segments in which everything that `pattern` finds is fixed, and tags are markup; a line stays one."""
    first, *others = text.split("\n")
    built = _line(first, pattern)
    for line in others:
        built += ["\n", *_line(line, pattern)]
    return built


def refilled(built: Sequence[Built], texts: Iterator[str]) -> str:
    """The text of what was built, with the next of `texts` for each segment."""
    return "".join(
        next(texts) if isinstance(item, Segment) else item.text if isinstance(item, Part) else item for item in built
    )


def _line(text: str, pattern: re.Pattern[str]) -> list[Built]:
    builder, at = SegmentBuilder(collapse=False), 0
    for match in pattern.finditer(text):
        builder.add(text[at : match.start()])
        raw, at = match[0], match.end()
        tag = _TAG.fullmatch(raw)
        if tag is None:
            builder.fixed(raw, raw)
        elif tag[3]:
            builder.point(raw)
        else:
            (builder.close if tag[1] else builder.open)(tag[2].lower(), raw)
    builder.add(text[at:])
    return builder.build()
