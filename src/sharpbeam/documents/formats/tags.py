"""HTML and XML whose elements a client describes: in a sentence, between sentences, or not to be translated.

The elements of XML have no meaning by their names, so they are told by their places: what has text next to it is in a
sentence, and so is what it holds; other elements are between sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from sharpbeam.documents.formats.html import ElementRules, HtmlDocument
from sharpbeam.documents.formats.html_tokens import Token, html_tokens

NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class TagOptions:
    """Names of elements, in lower case; the others are as their format or their places have them."""

    ignore: frozenset[str] = NONE  # copied as they are, with what they hold
    splitting: frozenset[str] = NONE  # between sentences
    non_splitting: frozenset[str] = NONE  # in a sentence
    outline: bool = True  # XML: tell by places which of the others are between sentences; no: none of them


def read_tagged(content: str, format: str, tags: TagOptions) -> HtmlDocument:
    """The text `content` of the format html, or of xml, whole or in part."""
    if format == "html":
        rules = ElementRules()
        inline = (rules.inline | tags.non_splitting) - tags.splitting
        return HtmlDocument(content, replace(rules, inline=inline, fixed=rules.fixed | tags.ignore))
    tokens = list(html_tokens(content, xml=True))
    names = sentence_elements(tokens) if tags.outline else frozenset(token.name for token in tokens)
    inline = (names | tags.non_splitting | tags.ignore) - tags.splitting
    return HtmlDocument(content, ElementRules(inline, tags.ignore, NONE, NONE, NONE, attributes=False), xml=True)


def sentence_elements(tokens: Iterable[Token]) -> frozenset[str]:
    """Names of elements that are in a sentence somewhere: next to text, or to a space in the same line."""
    names, parents, mixed = [""], [-1], [False]  # of each element, after the whole: whether it has text itself
    path, open_names = [0], Counter[str]()
    for token in tokens:
        if token.kind == "text":
            mixed[path[-1]] |= bool(token.raw.strip()) or "\n" not in token.raw
        elif token.kind in ("open", "void"):
            names.append(token.name)
            parents.append(path[-1])
            mixed.append(False)
            if token.kind == "open":
                path.append(len(names) - 1)
                open_names[token.name] += 1
        elif token.kind == "close" and open_names[token.name]:
            name = ""
            while name != token.name:
                name = names[path.pop()]
                open_names[name] -= 1
    inline = [False] * len(names)
    for index in range(1, len(names)):
        inline[index] = mixed[parents[index]] or inline[parents[index]]
    return frozenset(name for name, own in zip(names, inline, strict=True) if own)
