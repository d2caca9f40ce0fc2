"""The tokens of HTML, cut where browsers cut them, with their raw text.

Python's html.parser recovers from broken markup in other ways than browsers do: it takes an unclosed comment for text.
What one takes for text and the other for markup could be made to run by moving a tag, so the rules here are those of
the HTML standard, section 13.2.5: comments, bogus comments, quoted attributes, raw text, script data with its escapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape as _unescape
from typing import Literal

# elements without tags inside
RAW = frozenset("script style xmp iframe noembed noframes noscript textarea title".split())  # noqa: SIM905
_TAG = re.compile(r"</?([a-zA-Z][^\t\n\f\r />]*)")
_NAME = re.compile(r"[\t\n\f\r /]*(=?[^\t\n\f\r />=]*)[\t\n\f\r ]*")  # of an attribute, which may begin with "="
_VALUE = re.compile(r"""=[\t\n\f\r ]*(?:"([^"]*)"|'([^']*)'|(?!["'\t\n\f\r ])([^\t\n\f\r >]*))""")
_LONG_NUMBER = re.compile("&#([0-9]{9,})")
_COMMENT_END = re.compile(r"--!?>")
_SCRIPT = re.compile(r"<!--|-->|<(/?)script(?=[\t\n\f\r />])", re.I)


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of a tag."""

    name: str  # in lower case
    value: str  # entities decoded; empty where there is none
    start: int = 0  # the place of the value in the tag, with its quotes
    end: int = 0


@dataclass(frozen=True, slots=True)
class Token:
    """A part of a page; the raw texts of all tokens make it up."""

    kind: Literal["open", "close", "void", "text", "other"]
    raw: str
    name: str = ""  # of a tag, in lower case
    attributes: tuple[Attribute, ...] = ()
    ends: bool = True  # not so if the page ends inside of it

    def attribute(self, name: str) -> str:
        """The value of an attribute, the first one of its name; empty if there is none."""
        return next((each.value for each in self.attributes if each.name == name), "")


def unescape(text: str) -> str:
    """The text with entities decoded; Python refuses numbers of thousands of digits."""
    return _unescape(_LONG_NUMBER.sub(lambda number: "&#" + (number[1].lstrip("0") or "0")[:8], text))


def html_tokens(page: str, xml: bool = False) -> Iterator[Token]:
    """The tokens of a page, in order. In `xml` an element that closes itself is no tag but markup, as CDATA is."""
    at = text = 0
    while (at := page.find("<", at)) >= 0:
        token = (_xml_markup if xml else _markup)(page, at)
        if token is None:
            at += 1
            continue
        if text < at:
            yield Token("text", page[text:at])
        yield token
        at += len(token.raw)
        if not xml and token.kind == "open" and (token.name in RAW or token.name == "plaintext"):
            end = _raw_end(page, at, token.name)
            if at < end:
                yield Token("text", page[at:end])
            at = end
        text = at
    if text < len(page):
        yield Token("text", page[text:])


def _markup(page: str, at: int) -> Token | None:
    """The markup that begins at `at`, or None if the sign there is text. Markup without an end is all that is left."""
    tag = _TAG.match(page, at)
    if tag:
        return _tag(page, at, tag)
    if page.startswith("<!--", at):
        short = next((sign for sign in (">", "->") if page.startswith(sign, at + 4)), "")
        sign = _COMMENT_END.search(page, at + 4)
        end = at + 4 + len(short) if short else sign.end() if sign else len(page)
        return Token("other", page[at:end], ends=bool(short or sign))
    if page[at + 1 : at + 2] in ("!", "?") or (page.startswith("</", at) and at + 2 < len(page)):
        end = page.find(">", at + 2)
        return Token("other", page[at : end + 1] if end >= 0 else page[at:], ends=end >= 0)
    return None


def _xml_markup(page: str, at: int) -> Token | None:
    for begin, end in (("<![CDATA[", "]]>"), ("<!--", "-->"), ("<?", "?>")):
        if page.startswith(begin, at):
            last = page.find(end, at + len(begin))
            return Token("other", page[at : last + len(end)] if last >= 0 else page[at:], ends=last >= 0)
    token = _markup(page, at)
    closed = token is not None and token.kind == "open" and token.raw.endswith("/>")
    return Token("void", token.raw, token.name, token.attributes) if token and closed else token


def _tag(page: str, at: int, begun: re.Match[str]) -> Token:
    place, attributes = begun.end(), list[Attribute]()
    while name := _NAME.match(page, place):
        place = name.end()
        sign = page[place : place + 1]
        if sign == ">":
            kind: Literal["open", "close"] = "close" if page[at + 1] == "/" else "open"
            if name[1]:
                attributes.append(Attribute(name[1].lower(), ""))
            return Token(kind, page[at : place + 1], begun[1].lower(), tuple(attributes))
        value = _VALUE.match(page, place) if sign == "=" else None
        if not sign or (sign == "=" and value is None):  # the page ends here, or the quote is never closed
            break
        if value is None:
            attributes.append(Attribute(name[1].lower(), ""))
            continue
        place, group = value.end(), value.lastindex or 3
        first, last = (edge - at for edge in value.span(group))
        quoted = int(group < 3)
        attributes.append(Attribute(name[1].lower(), unescape(value[group]), first - quoted, last + quoted))
    return Token("other", page[at:], ends=False)


def _raw_end(page: str, at: int, name: str) -> int:
    """Where the text of an element without tags ends: at its closing tag, or at the end of the page."""
    if name == "plaintext":
        return len(page)
    if name != "script":
        sign = re.compile(rf"</{name}(?=[\t\n\f\r />])", re.I).search(page, at)
        return sign.start() if sign else len(page)
    escaped = double = False
    while sign := _SCRIPT.search(page, at):
        at = sign.end()
        if sign[0] == "<!--":
            escaped, at = True, at - 2
        elif sign[0] == "-->":
            escaped = double = False
        elif sign[1] and not double:
            return sign.start()
        else:
            double = escaped and not sign[1]
    return len(page)
