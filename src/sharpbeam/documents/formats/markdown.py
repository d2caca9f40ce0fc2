"""Markdown (CommonMark with tables and strikethrough): paragraphs, headings, cells; code, HTML and links' targets stay.

markdown-it finds the blocks and the inline markup. A block's lines are written as one. What is written is parsed again
in tests: its blocks are those of the source.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sharpbeam.documents.formats.html import VOID
from sharpbeam.documents.formats.interface import Template
from sharpbeam.documents.segment import Part, SegmentBuilder, is_translatable
from sharpbeam.errors import InputError, needs_extra

if TYPE_CHECKING:
    from markdown_it.token import Token

MOST_LINES = 20_000  # of a page: a table takes 5 kB for each
_FRONT = re.compile(r"\A---[ \t]*\n.*?\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.S)
_SPECIAL = re.compile(r"[\\`<\[\]]|(?<=\S)[*~]|[*~](?=\S)|(?<!\w)_|_(?!\w)|&(?=[#\w])|\|")
_BLOCK = re.compile(r"^(?:([#>+=-])|(\d+)([.)]))(?=\s|[=-]|$)", re.M)
_DELIMITED = ("em_open", "em_close", "strong_open", "strong_close", "s_open", "s_close")
_EMPHASIS = re.compile(r"<(/?)(em|strong|s)>")
_TAG = re.compile(r"<(/?)([a-zA-Z][\w-]*)(?![\w-])[^<>]*?(/?)>")


class MarkdownDocument(Template):
    """A Markdown page."""

    def __init__(self, content: str) -> None:
        super().__init__(content)
        with needs_extra("reading Markdown", "documents"):
            from markdown_it import MarkdownIt
        front = _FRONT.match(content)
        self._head = front[0] if front else ""
        body = content[len(self._head) :]
        self._lines = body.split("\n")
        self._parser = MarkdownIt("commonmark", {"store_labels": True}).enable(["table", "strikethrough"])
        self._at = (0, 0)  # line and column up to where the page is read
        self.keep(self._head)
        lines: tuple[int, int] = (0, 0)
        self._known: dict[str, Any] = {}  # references
        if len(self._lines) > MOST_LINES:
            raise InputError(f"the page has {len(self._lines):,} lines, and at most {MOST_LINES:,} are read; split it.")
        blocks = MarkdownIt("commonmark").enable("table").disable("inline")
        for token in blocks.parse(body, self._known):
            if token.map:
                lines = (token.map[0], token.map[1])
            if token.type == "inline" and is_translatable(token.content):
                self._inline(token.content, lines)
        self._skip(len(self._lines) - 1, len(self._lines[-1]))

    def _children(self, text: str) -> list[Token]:
        return self._parser.parseInline(text, self._known)[0].children or []

    def _skip(self, line: int, column: int) -> None:
        """Keep everything up to a place."""
        first, begin = self._at
        if (line, column) < self._at:
            return
        if line == first:
            self.keep(self._lines[line][begin:column])
        else:
            between = [self._lines[first][begin:], *self._lines[first + 1 : line], self._lines[line][:column]]
            self.keep("\n".join(between))
        self._at = (line, column)

    def _inline(self, content: str, lines: tuple[int, int]) -> None:
        """The text of a block, if its lines are found in the source."""
        own = content.split("\n")
        line = max(lines[0], self._at[0])
        column = self._at[1] if line == self._at[0] else 0
        begin = self._lines[line].find(own[0], column) if line < len(self._lines) else -1
        last = line + len(own) - 1
        if begin < 0 or last >= len(self._lines):
            return
        end = begin + len(own[0]) if len(own) == 1 else self._lines[last].find(own[-1]) + len(own[-1])
        if len(own) > 1 and own[-1] not in self._lines[last]:
            return
        inline, children = _Inline(), self._children(content)
        for child in children:
            inline.add(child)
        self._skip(line, begin)
        self.keep(self.mark(inline.builder.build(), partial(self._block, _kinds(children))))
        self._at = (last, end)

    def _block(self, kinds: Counter[str], parts: list[Part]) -> str:
        """The text of a block, which has the same markup when it is read again."""
        text = _written(parts)
        return text if _kinds(self._children(text)) == kinds else _written(parts, html=True)


class _Inline:
    """Makes segments of inline tokens."""

    def __init__(self) -> None:
        self.builder = SegmentBuilder()
        self._links: list[Token] = []

    def add(self, token: Token) -> None:
        """The next token."""
        kind, builder = token.type, self.builder
        if self._links and self._links[-1].markup == "autolink":
            self._autolink(token)
        elif kind == "text":
            builder.add(token.content)
        elif kind == "softbreak":
            builder.add(" ")
        elif kind == "hardbreak":
            builder.boundary("\\\n")
        elif kind == "code_inline":
            pad = " " if "`" in (token.content[:1], token.content[-1:]) else ""
            builder.fixed(token.content, f"{token.markup}{pad}{token.content}{pad}{token.markup}")
        elif kind in _DELIMITED:
            (builder.open if kind.endswith("open") else builder.close)(kind.split("_")[0] + token.markup, token.markup)
        elif kind == "link_open":
            self._links.append(token)
            if token.markup != "autolink":
                builder.open("link", "[")
        elif kind == "link_close":
            builder.close("link", "]" + _target(self._links.pop(), "href"))
        elif kind == "image":
            builder.point(f"![{_escape(token.content)}]{_target(token, 'src')}")
        else:
            self._html(token.content)

    def _autolink(self, token: Token) -> None:
        if token.type == "link_close":
            self._links.pop()
        else:
            self.builder.fixed(token.content, f"<{token.content}>")

    def _html(self, raw: str) -> None:
        tag = _TAG.fullmatch(raw)
        if tag is None or tag[3] or tag[2].lower() in VOID:
            self.builder.point(raw)
        else:
            (self.builder.close if tag[1] else self.builder.open)(f"<{tag[2].lower()}", raw)


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
    return _SPECIAL.sub(lambda found: "\\" + found[0], text)


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
    return _BLOCK.sub(lambda found: f"\\{found[1]}" if found[1] else f"{found[2]}\\{found[3]}", text)


def _kinds(tokens: Sequence[Token]) -> Counter[str]:
    """The markup of a block, and how often each kind is there."""
    found: Counter[str] = Counter()
    for token in tokens:
        if token.type == "html_inline" and (tag := _EMPHASIS.fullmatch(token.content)):
            found[f"{tag[2]}_{'close' if tag[1] else 'open'}"] += 1
        elif token.type not in ("text", "softbreak"):
            found[token.type] += 1
    return found
