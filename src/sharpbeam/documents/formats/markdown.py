"""Markdown (CommonMark with tables and strikethrough): paragraphs, headings, cells; code, HTML and links' targets stay.

markdown-it finds the blocks and the inline markup. A block's lines are written as one. What is written is parsed again
in tests: its blocks are those of the source.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from sharpbeam.documents.formats.html import VOID
from sharpbeam.documents.formats.messages import TAG
from sharpbeam.documents.formats.values import ValuesDocument
from sharpbeam.errors import InputError, needs_extra
from sharpbeam.text.segment import Built, Part, SegmentBuilder, is_translatable

if TYPE_CHECKING:
    from markdown_it.token import Token

MOST_LINES = 20_000  # of a page: a table takes 5 kB for each
_FRONT = re.compile(r"\A\ufeff?(---|\+\+\+)[ \t]*\r?\n.*?\n(?:\1|\.\.\.)[ \t]*\r?(?:\n|\Z)", re.S)
_LINE_END = re.compile(r"(?<=\n)|(?<=\r)(?!\n)")
_GITHUB = r"\[(?:[ xX]|\^[\w-]{1,60}|![A-Z]{1,20})\](?![(\[])"  # a task, a footnote, an alert
_NOTE = re.compile(r"\[\^[\w-]{1,60}\]:[ \t]*|\[![A-Z]{1,20}\][ \t]*$")  # a footnote, an alert
_URL = r"(?:https?://|www\.)[^\s<>\[\]*`\\]{1,2000}"  # in which an escape would be a part of the address
_SPECIAL = re.compile(rf"{_URL}|{_GITHUB}|[\\`<\[\]]|(?<=\S)[*~]|[*~](?=\S)|(?<!\w)_|_(?!\w)|&(?=[#\w])|\|")
_BLOCK = re.compile(r"^(?:(>|#{1,6}(?=\s|$)|[*+=-](?=\s|[=-]|$))|(\d+)([.)])(?=\s|$))", re.M)
_DELIMITED = ("em_open", "em_close", "strong_open", "strong_close", "s_open", "s_close")
_EMPHASIS = re.compile(r"<(/?)(em|strong|s)>")


class MarkdownDocument(ValuesDocument):
    """A Markdown page, whose values are the texts of blocks."""

    def __init__(self, content: str) -> None:
        super().__init__(content)
        with needs_extra("reading Markdown", "documents"):
            from markdown_it import MarkdownIt
        begin = front.end() if (front := _FRONT.match(content)) else 0
        lines = _LINE_END.split(content[begin:])
        if len(lines) - (not lines[-1]) > MOST_LINES:
            raise InputError(f"the page has {len(lines):,} lines, and at most {MOST_LINES:,} are read; split it.")
        self._starts = [*accumulate(map(len, lines[:-1]), initial=begin), len(content) + 1]  # of lines, and the end
        self._parser = MarkdownIt("commonmark", {"store_labels": True}).enable(["table", "strikethrough"])
        self._parser.validateLink = lambda _: True  # type: ignore[assignment, method-assign]
        self._known: dict[str, Any] = {}  # references
        self._seen = 0
        blocks = MarkdownIt("commonmark").enable("table").disable("inline")
        line = 0
        for token in blocks.parse(content[begin:], self._known):
            line = token.map[0] if token.map else line
            if token.type == "inline" and is_translatable(token.content):
                self._inline(token.content, line)

    def _children(self, text: str) -> list[Token]:
        return self._parser.parseInline(text, self._known)[0].children or []

    def _inline(self, text: str, line: int) -> None:
        """Add the text of a block from a line on: in parts, where it has footnotes or the head of an alert."""
        parts: list[tuple[int, list[str]]] = [(line, [])]
        for number, each in enumerate(text.split("\n"), line):
            rest = each[mark.end() :] if (mark := _NOTE.match(each)) else each
            if mark:
                parts.append((number, []) if rest.strip() else (number + 1, []))
            if rest.strip() or not mark:
                parts[-1][1].append(rest)
        for start, lines in parts:
            if is_translatable("\n".join(lines)):
                self._part(start, lines)

    def _part(self, line: int, lines: Sequence[str]) -> None:
        """Add lines from `line` on as one text, if they are in the source."""
        text, (first, *others) = "\n".join(lines), lines
        at = max(self._starts[line], self._done, self._seen)
        line = bisect_right(self._starts, at) - 1
        if line + len(others) + 1 >= len(self._starts):
            return
        begin = self._content.find(first, at, self._starts[line + 1] - 1)
        cell = begin < 0  # perhaps with bars, which are escaped
        if cell:
            first = first.replace("|", "\\|")
            begin = self._content.find(first, at, self._starts[line + 1] - 1)
        rest, stop = self._starts[line + len(others) : line + len(others) + 2]
        last = self._content.find(others[-1], rest, stop - 1) if others else begin
        children, end = self._children(text), last + len(others[-1] if others else first)
        self._seen = max(self._seen, end)  # of a cell that stays, too
        if (
            begin >= 0
            and last >= 0
            and any(token.type == "text" and is_translatable(token.content) for token in children)
        ):
            self.put(begin, end, _built(children), partial(self._block, _kinds(children), cell))

    def _block(self, kinds: Counter[str], cell: bool, parts: list[Part]) -> str:
        """The text of a block, which has the same markup when it is read again."""
        text = _written(parts)
        text = text if _kinds(self._children(text)) == kinds else _written(parts, html=True)
        return re.sub(r"(?<!\\)\|", r"\\|", text) if cell else text


def _built(tokens: Sequence[Token]) -> list[Built]:
    """Inline tokens as texts and markup."""
    builder = SegmentBuilder()
    autolink, targets = False, list[str]()  # of the links around
    for token in tokens:
        kind, text = token.type, token.content
        if kind.startswith("link") and token.markup == "autolink":
            autolink = kind == "link_open"
        elif autolink:
            builder.fixed(text, f"<{text}>")
        elif kind in ("text", "softbreak"):
            builder.add(" " if kind == "softbreak" else text)
        elif kind == "code_inline":
            pad = " " if "`" in (text[:1], text[-1:]) else ""
            builder.fixed(text, f"{token.markup}{pad}{text}{pad}{token.markup}")
        elif kind in _DELIMITED:
            (builder.open if kind.endswith("open") else builder.close)(kind.split("_")[0] + token.markup, token.markup)
        elif kind == "link_open":
            targets.append(_target(token, "href"))
            builder.open("link", "[")
        elif kind == "link_close":
            builder.close("link", "]" + targets.pop())
        else:
            _add_mark(builder, token)
    return builder.build()


def _add_mark(builder: SegmentBuilder, token: Token) -> None:
    """Add a line break, an image or HTML."""
    tag = TAG.fullmatch(token.content)
    if token.type == "hardbreak":
        builder.boundary("\\\n")
    elif token.type == "image":
        builder.point(f"![{_escape(token.content)}]{_target(token, 'src')}")
    elif tag is None or tag[3] or tag[2].lower() in VOID:
        builder.point(token.content)
    else:
        (builder.close if tag[1] else builder.open)(f"<{tag[2].lower()}", token.content)


def _target(token: Token, name: str) -> str:
    """Where a link or an image points, as it is written after its text."""
    label = token.meta.get("label")
    if label:
        return f"[{label}]"
    place, title = str(token.attrs.get(name, "")), str(token.attrs.get("title", ""))
    place = f"<{place}>" if re.search(r"[\s()]", place) or not place else place
    quoted = title.replace("\\", "\\\\").replace('"', '\\"')
    return f'({place} "{quoted}")' if title else f"({place})"


def _escape(text: str) -> str:
    return _SPECIAL.sub(lambda sign: "\\" * (len(sign[0]) == 1) + sign[0], text)


def _written(parts: list[Part], html: bool = False) -> str:
    """A block; `html` writes emphasis as HTML tags, which may stand anywhere."""
    names = {"*": "em", "_": "em", "**": "strong", "__": "strong", "~~": "s"}
    text, opened = "", [""]
    for part in parts:
        name = names.get(part.text, "") if part.markup and html else ""
        if not part.markup:
            text += _escape(part.text)
        elif not name:  # two pieces of code that touch would be one, and a link after "!" an image
            if part.text.startswith("[") and text.endswith("!"):
                text = text[:-1] + "\\!"
            text += " " * (text.endswith("`") and part.text.startswith("`")) + part.text
        elif opened[-1] == part.text:
            text += f"</{name}>"
            opened.pop()
        else:
            text += f"<{name}>"
            opened.append(part.text)
    return _BLOCK.sub(lambda sign: f"\\{sign[1]}" if sign[1] else f"{sign[2]}\\{sign[3]}", text)


def _kinds(tokens: Sequence[Token]) -> Counter[str]:
    """The markup of a block, and how often each kind is there."""
    kinds: Counter[str] = Counter()
    for token in tokens:
        if token.type == "html_inline" and (tag := _EMPHASIS.fullmatch(token.content)):
            kinds[f"{tag[2]}_{'close' if tag[1] else 'open'}"] += 1
        elif token.type not in ("text", "softbreak"):
            kinds[token.type] += 1
    return kinds
