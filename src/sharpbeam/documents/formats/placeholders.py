"""Placeholders in the texts of programs: %s, {name}, ${x}, <b>, which a translation must have as they are."""

from __future__ import annotations

import re

from sharpbeam.documents.segment import Part, Segment, SegmentBuilder

_TAG = re.compile(r"<(/?)([a-zA-Z][\w:-]*)(?![\w:-])[^<>]*?(/?)>")
_PLACEHOLDER = re.compile(
    r"<[a-zA-Z/][^<>]*>|%(?:\(\w+\))?[-+ #0]{0,5}\d{0,9}(?:\.\d{1,9})?[hlL]{0,2}[diouxXeEfFgGcrsa@](?![a-zA-Z])|%%|"
    r"\$\{[^{}]*\}|\$\w+|\{\{[^{}]*\}\}|\{[^{}]*\}|&\w+;|https?://\S+"
)


def with_placeholders(text: str, pattern: re.Pattern[str] = _PLACEHOLDER) -> list[str | Segment | Part]:
    """A text as segments in which everything that `pattern` finds is fixed, and tags are markup; a line stays one."""
    first, *others = text.split("\n")
    built = _line(first, pattern)
    for line in others:
        built += ["\n", *_line(line, pattern)]
    return built


def _line(text: str, pattern: re.Pattern[str]) -> list[str | Segment | Part]:
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
