"""Attributes of HTML that people read: their values are segments of their own, and are escaped when they come back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from sharpbeam.documents.formats.html_tokens import Token
from sharpbeam.documents.formats.interface import Template
from sharpbeam.documents.segment import Part, Segment, is_translatable

READ = frozenset(("alt", "title", "placeholder", "aria-label"))
UNSEEN = frozenset(("link", "meta", "script", "style", "template", "noscript"))  # elements; titles there are names
_MARK = re.compile("\0([0-9]{1,9})\0")  # stands for a value until it is written; no page has the character


class Attributes:
    """The values of one page."""

    def __init__(self, template: Template, content: str) -> None:
        """Finds none in a `content` that has the character of the marks."""
        self._template, self._usable = template, "\0" not in content
        self._raw: dict[int, str] = {}  # values as they were, with their quotes, by segment

    def marked(self, token: Token) -> str:
        """The raw text of a tag, with a mark in the place of each value."""
        if not self._usable or not token.attributes or token.name in UNSEEN:
            return token.raw
        parts, at, seen = [], 0, set[str]()
        for attribute in token.attributes:
            if attribute.name in READ - seen and is_translatable(attribute.value):
                index = self._template.aside(Segment(" ".join(attribute.value.split())))
                self._raw[index] = token.raw[attribute.start : attribute.end]
                parts += [token.raw[at : attribute.start], f"\0{index}\0"]
                at = attribute.end
            seen.add(attribute.name)  # browsers take the first one of a name
        return "".join(parts) + token.raw[at:]

    def filled(self, page: str, translated: Sequence[Sequence[Part]]) -> str:
        """The page with values in the places of their marks; a value that is its own translation stays as it was."""

        def value(found: re.Match[str]) -> str:
            index = int(found[1])
            if index not in self._raw:  # a decoder made it up
                return found[0]
            text, raw = "".join(part.text for part in translated[index]), self._raw[index]
            if text == self._template.segments[index].text:
                return raw
            quote = raw[0] if raw[0] in "\"'" else '"'
            return quote + escape(text).replace("\u00a0", "&#160;") + quote

        return _MARK.sub(value, page) if self._raw else page
