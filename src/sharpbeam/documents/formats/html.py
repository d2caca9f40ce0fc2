"""HTML: text between tags is translated, tags are copied byte for byte, and inline ones are moved with their words.

The document is cut at block elements and line breaks; what is between is a segment, and so is the value of an
attribute that people read. Elements that hold no prose (script, style, code, pre and others) and those with
translate="no" or the class notranslate are copied as they are. Translated text is escaped, so it cannot become markup.

A client may describe the elements of HTML and XML. Those of XML have no meaning by their names, so they are told by
their places: what has text next to it is in a sentence, and so is what it holds; others are between sentences.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from html import escape

from sharpbeam.documents.formats.html_tokens import Token, html_tokens, unescape
from sharpbeam.documents.formats.interface import Languages, Template
from sharpbeam.text.segment import Part, Segment, SegmentBuilder, is_translatable, written

_INLINE = (
    "a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark nobr q ruby rb rp rt s small span strike "
    "strong sub sup time tt u"
)
INLINE = frozenset(_INLINE.split())
VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())  # noqa: SIM905
_OPAQUE = (
    "script style pre textarea svg math template noscript iframe object canvas audio video xmp noembed noframes "
    "plaintext select"
)
FOREIGN = frozenset(("svg", "math"))  # their own rules; browsers read CDATA in them
READ = frozenset(("alt", "title", "placeholder", "aria-label"))  # attributes that people read
UNSEEN = frozenset(("link", "meta", "script", "style", "template", "noscript"))  # elements; titles there are names
NONE: frozenset[str] = frozenset()
_BLOCKS = (
    "address article aside blockquote details div dl fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header "
    "hr main menu nav ol p section table ul"
)
_ENDS = {"p": _BLOCKS, "li": "li", "dt": "dt dd", "dd": "dt dd", "td": "td th tr", "th": "td th tr", "tr": "tr"}
ENDS = {name: frozenset(others.split()) for name, others in _ENDS.items()}  # where an end tag is left out
_CODE = re.compile(r"[A-Za-z]{2,8}(?:[-_][A-Za-z0-9]{1,8})*")
_LANG = re.compile(rf"""(\s(?:xml:)?lang\s*=\s*["']?)({_CODE.pattern})(?=["'\s/>])""", re.I)
MOST_FIXED = 60  # characters of fixed text that the model reads as a part of its sentence


@dataclass(frozen=True)
class ElementRules:
    """The kinds of elements of a page, by name."""

    inline: frozenset[str] = INLINE  # in a sentence
    fixed: frozenset[str] = frozenset(("code", "kbd", "samp", "var"))  # in a sentence, not translated
    opaque: frozenset[str] = frozenset(_OPAQUE.split())  # not translated
    void: frozenset[str] = VOID  # without an end
    points: frozenset[str] = frozenset(("img", "wbr"))  # of these in a sentence
    attributes: bool = True  # some are read by people


@dataclass(frozen=True)
class TagOptions:
    """Names of elements, in lower case; the others are as their format or their places have them."""

    ignore: frozenset[str] = NONE  # copied as they are, with what they hold
    splitting: frozenset[str] = NONE  # between sentences
    non_splitting: frozenset[str] = NONE  # in a sentence
    outline: bool = True  # XML: tell by places which of the others are between sentences; no: none of them


class HtmlDocument(Template):
    """A page, or a part of one. In `xml` elements may close themselves, and have no special rules."""

    lacking = "xmlcharrefreplace"

    def __init__(self, content: str, rules: ElementRules = ElementRules(), xml: bool = False) -> None:
        super().__init__(content)
        self._rules = rules
        self._builder = SegmentBuilder()
        self._raw: list[str] = []  # of the segment, for one without text
        self._text: list[str] = []
        self._skipped = ""  # the element that is copied as it is, and those that are open in it
        self._nested, self._open = list[str](), Counter[str]()
        self._kept: list[str] = []
        self._kept_text: list[str] = []
        self._inline = False
        self._frozen = False  # tags stay where they are: it is not sure that a browser sees the same ones
        for token in html_tokens(content, xml):
            self._take(token)
        if self._skipped:  # it is never closed, so it may end inside of a tag
            self._inline = False
            self._unskip()
        self._flush()

    def _take(self, token: Token) -> None:
        """Take the next token."""
        name, raw, rules = token.name, token.raw, self._rules
        if self._skipped:
            self._skip(token)
            return
        fixed = token.attribute("translate").lower() == "no" or "notranslate" in token.attribute("class").split()
        if rules.attributes and token.kind in ("open", "void") and not (self._frozen or fixed or name in UNSEEN):
            raw = self._marked(token)
        if token.kind == "text":
            self._raw.append(raw)
            self._text.append(unescape(raw))
            self._builder.add(unescape(raw))
        elif token.kind == "open" and name not in rules.void and (fixed or name in rules.fixed | rules.opaque):
            self._inline = name in rules.fixed | rules.inline and not self._frozen
            self._skipped, self._kept, self._kept_text = name, [raw], []
        elif name in rules.inline and token.kind != "void" and not self._frozen:
            self._raw.append(raw)
            (self._builder.open if token.kind == "open" else self._builder.close)(name, raw)
        elif (
            (token.kind == "other" or name in rules.points or (token.kind == "void" and name in rules.inline))
            and token.ends
            and not self._frozen
        ):
            self._raw.append(raw)
            self._builder.point(raw)
        else:
            self._flush()
            self.keep(self.mark([Part(raw, markup=True)], self._root) if name == "html" else raw)

    def _marked(self, token: Token) -> str:
        """The raw text of a tag, with a mark in the place of each value that people read."""
        raw, at, seen = "", 0, set[str]()
        for attribute in token.attributes:
            if attribute.name in READ - seen and is_translatable(attribute.value):
                segment, value = Segment(" ".join(attribute.value.split())), token.raw[attribute.start : attribute.end]
                raw += token.raw[at : attribute.start] + self.mark([segment], partial(_value, segment.text, value))
                at = attribute.end
            seen.add(attribute.name)  # browsers take the first one of a name
        return raw + token.raw[at:]

    def _root(self, parts: list[Part]) -> str:
        """The tag that says the language of the page."""
        return _LANG.sub(lambda code: code[1] + relabeled(code[2], self.languages), parts[0].text)

    def _skip(self, token: Token) -> None:
        name, ends = token.name, ENDS.get(self._skipped, NONE)
        closes = token.kind == "close" and not self._open[name]
        begins = token.kind in ("open", "void") and name in ends and INLINE.issuperset(self._nested[-1:])
        if begins or (closes and ends and name != self._skipped and name not in INLINE):
            self._unskip()
            self._take(token)
            return
        self._kept.append(token.raw)
        if token.kind == "text":
            self._kept_text.append(unescape(token.raw))
        elif token.kind == "open" and name not in self._rules.void:
            self._nested.append(name)
            self._open[name] += 1
        elif closes and name == self._skipped:
            self._unskip()
        while token.kind == "close" and self._open[name]:
            self._open[last := self._nested.pop()] -= 1
            if last == name:
                break

    def _unskip(self) -> None:
        raw, text = "".join(self._kept), "".join(self._kept_text)
        self._frozen = self._frozen or (self._skipped in FOREIGN and "<![cdata[" in raw.lower())
        self._skipped, self._nested, self._open = "", [], Counter()
        if self._inline:
            self._raw.append(raw)
            self._builder.fixed(readable(text), raw)
        else:
            self._flush()
            self.keep(raw)

    def _flush(self) -> None:
        """End the segment."""
        has_text = is_translatable("".join(self._text))
        self.keep(
            self.mark(self._builder.build(), partial(written, escape=_escape)) if has_text else "".join(self._raw)
        )
        self._builder, self._raw, self._text = SegmentBuilder(), [], []


XHTML = partial(HtmlDocument, xml=True)  # and other XML with text of its kind


def readable(text: str) -> str:
    """Fixed text as the model reads it in its sentence: nothing for a long one, or one with lines or spaces around."""
    return text if len(text) <= MOST_FIXED and "\n" not in text and text == text.strip() else ""


def relabeled(code: str, languages: Languages) -> str:
    """The code of the target for one of the source, or for any if there is no source; else the code as it is."""
    source, target = languages
    own, other = (re.split("[-_]", each)[0].lower() for each in (code, source))  # without script and region
    return target.replace("_", "-") if _CODE.fullmatch(target) and other in ("", own) else code


def _escape(text: str) -> str:
    return escape(text, quote=False).replace("\u00a0", "&#160;")


def _value(source: str, raw: str, parts: list[Part]) -> str:
    """The value of an attribute with its quotes; one that is its own translation stays as it was."""
    text, quote = "".join(part.text for part in parts), raw[0] if raw[0] in "\"'" else '"'
    return raw if text == source else quote + escape(text).replace("\u00a0", "&#160;") + quote


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
