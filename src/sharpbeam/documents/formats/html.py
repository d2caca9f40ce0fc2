"""HTML: text between tags is translated, tags are copied byte for byte, and inline ones are moved with their words.

The document is cut at block elements and line breaks; what is between is a segment, and so is the value of an
attribute that people read (formats/html_attributes.py). Elements that hold no prose (script, style, code, pre and
others) and those with translate="no" or the class notranslate are copied as they are. Translated text is escaped, so it
cannot become markup.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from sharpbeam.documents.formats.html_attributes import Attributes
from sharpbeam.documents.formats.html_tokens import Token, html_tokens, unescape
from sharpbeam.documents.formats.interface import Template
from sharpbeam.documents.segment import Part, SegmentBuilder, is_translatable, written

_INLINE = (
    "a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark nobr q ruby rb rp rt s small span strike "
    "strong sub sup time tt u"
)
INLINE = frozenset(_INLINE.split())
VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())  # noqa: SIM905
INLINE_VOID = frozenset(["img", "wbr"])
FIXED = frozenset(["code", "kbd", "samp", "var"])  # inline, not translated
_OPAQUE = (
    "script style pre textarea svg math template noscript iframe object canvas audio video xmp noembed noframes "
    "plaintext select"
)
OPAQUE = frozenset(_OPAQUE.split())
FOREIGN = frozenset(("svg", "math"))  # their own rules; browsers read CDATA in them
_CODE = re.compile(r"[A-Za-z]{2,8}(?:[-_][A-Za-z0-9]{1,8})*")
_LANG = re.compile(rf"""(\s(?:xml:)?lang\s*=\s*["']?)({_CODE.pattern})(?=["'\s/>])""", re.I)
MOST_FIXED = 60  # characters of fixed text that the model reads as a part of its sentence


@dataclass(frozen=True)
class ElementRules:
    """The kinds of elements of a page, by name."""

    inline: frozenset[str] = INLINE  # in a sentence
    fixed: frozenset[str] = FIXED  # in a sentence, not translated
    opaque: frozenset[str] = OPAQUE  # not translated
    void: frozenset[str] = VOID  # without an end
    points: frozenset[str] = INLINE_VOID  # of these in a sentence
    attributes: bool = True  # some are read by people


class HtmlDocument(Template):
    """A page, or a part of one."""

    xml = False
    lacking = "xmlcharrefreplace"  # letters that its encoding has not

    def __init__(self, content: str, rules: ElementRules = ElementRules()) -> None:
        super().__init__()
        self._attributes = Attributes(self, content)
        reader = _Reader(self, self._attributes, rules)
        for token in html_tokens(content, self.xml):
            reader.take(token)
        reader.end()

    def relabel(self, source: str, target: str) -> None:
        """Change the `lang` of the page."""
        self.rewrite_roots(lambda tag: _LANG.sub(lambda code: code[1] + relabeled(code[2], source, target), tag))

    def write(self, translated: Sequence[Sequence[Part]]) -> str:
        """The page."""
        page = self.filled([written(list(parts), _escape) for parts in translated])
        return self._attributes.filled(page, translated)


class XhtmlDocument(HtmlDocument):
    """XHTML, and other XML with text of its kind: elements may close themselves, and have no special rules."""

    xml = True


def readable(text: str) -> str:
    """Fixed text as the model reads it in its sentence: nothing for a long one, or one with lines or spaces around."""
    return text if len(text) <= MOST_FIXED and "\n" not in text and text == text.strip() else ""


def relabeled(code: str, source: str, target: str) -> str:
    """The code `target` for one of the language `source`, or of any if that is empty; else the code as it is."""
    same = _CODE.fullmatch(target) and (not source or _primary(code) == _primary(source))
    return target.replace("_", "-") if same else code


def _primary(code: str) -> str:
    """The language of a code, without script and region."""
    return re.split("[-_]", code)[0].lower()


def _escape(text: str) -> str:
    return escape(text, quote=False).replace("\u00a0", "&#160;")


class _Reader:
    """Makes segments of tokens."""

    def __init__(self, template: Template, attributes: Attributes, rules: ElementRules) -> None:
        self._template, self._attributes, self._rules = template, attributes, rules
        self._builder = SegmentBuilder()
        self._raw: list[str] = []  # of the segment, for one without text
        self._text: list[str] = []
        self._skipped = ""  # the element that is copied as it is, and how deep its name is nested
        self._depth = 0
        self._kept: list[str] = []
        self._kept_text: list[str] = []
        self._inline = False
        self._frozen = False  # tags stay where they are: it is not sure that a browser sees the same ones

    def take(self, token: Token) -> None:
        """The next token."""
        name, raw, rules = token.name, token.raw, self._rules
        if self._skipped:
            self._skip(token)
            return
        if rules.attributes and token.kind in ("open", "void") and not self._frozen and not _not_translated(token):
            raw = self._attributes.marked(token)
        if token.kind == "text":
            self._raw.append(raw)
            self._text.append(unescape(raw))
            self._builder.add(unescape(raw))
        elif (
            token.kind == "open"
            and name not in rules.void
            and (name in rules.fixed | rules.opaque or _not_translated(token))
        ):
            self._inline = name in rules.fixed | rules.inline and not self._frozen
            self._skipped, self._depth, self._kept, self._kept_text = name, 1, [raw], []
        elif name in rules.inline and token.kind != "void" and not self._frozen:
            self._raw.append(raw)
            (self._builder.open if token.kind == "open" else self._builder.close)(name, raw)
        elif (
            (token.kind == "other" or name in rules.points or (token.kind == "void" and name in rules.inline))
            and token.ends
            and not self._frozen
        ):
            self._raw.append(raw)
            self._builder.point(raw, solid=name == "img")
        else:
            self._flush()
            (self._template.keep_root if name == "html" else self._template.keep)(raw)

    def end(self) -> None:
        """The end of the page."""
        if self._skipped:  # it is never closed, so it may end inside of a tag
            self._inline = False
            self._unskip()
        self._flush()

    def _skip(self, token: Token) -> None:
        self._kept.append(token.raw)
        if token.kind == "text":
            self._kept_text.append(unescape(token.raw))
        elif token.name == self._skipped and token.kind in ("open", "close"):
            self._depth += 1 if token.kind == "open" else -1
            if not self._depth:
                self._unskip()

    def _unskip(self) -> None:
        raw, text = "".join(self._kept), "".join(self._kept_text)
        self._frozen = self._frozen or (self._skipped in FOREIGN and "<![cdata[" in raw.lower())
        self._skipped = ""
        if not self._inline:
            self._flush()
            self._template.keep(raw)
            return
        self._raw.append(raw)
        self._builder.fixed(readable(text), raw)

    def _flush(self) -> None:
        """End the segment."""
        if is_translatable("".join(self._text)):
            self._template.add(self._builder.build(), _escape)
        else:
            self._template.keep("".join(self._raw))
        self._builder, self._raw, self._text = SegmentBuilder(), [], []


def _not_translated(token: Token) -> bool:
    return token.attribute("translate").lower() == "no" or "notranslate" in token.attribute("class").split()
