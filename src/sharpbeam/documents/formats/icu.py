"""Messages of ICU and Java: {name}, {n, plural, one {# item} other {# items}}. The texts of arms are translated."""

from __future__ import annotations

import re

from sharpbeam.documents.formats.placeholders import PLACEHOLDER, with_placeholders
from sharpbeam.documents.segment import Built, Part

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
