"""XML with text in blocks: paragraphs, cells, strings. In a block are texts, and markup that moves with their words.

A format says in its `Rules` which elements are which. In office files text stands in runs, each with a format: the
format of most letters is the block's own, the others are tags as markup around words is, and neighboring runs of one
format are one. What is outside of blocks stays byte for byte.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from html import escape
from itertools import groupby
from typing import NamedTuple

from sharpbeam.documents.formats.html import readable
from sharpbeam.documents.formats.interface import Languages, Template
from sharpbeam.documents.formats.messages import add_piece, pieces
from sharpbeam.errors import InputError
from sharpbeam.text.segment import Part, SegmentBuilder, is_translatable
from sharpbeam.text.xml_tokens import XmlToken, xml_tokens

Names = frozenset[str]
MOST_TOKENS = 500_000  # of a block, each of some hundred bytes
MOST_FIELDS = 100  # of a block that end in another one
_CDATA, _CDATA_END = "<![CDATA[", "]]>"
_FORM = "\1"  # begins the markup that changes the format, which is not written
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # in XML


@dataclass(frozen=True)
class Rules:
    """Names of the elements of a format. Another element in a block is a point that moves with its place."""

    blocks: Names  # whose text is translated
    root: str = ""  # the outermost one; any if there is none
    inline: Names = frozenset()  # around words
    breaks: Names = frozenset()  # end a text
    kept: Names = frozenset()  # with what is in them, not translated
    runs: Names = frozenset()  # with one format; if there are any, text stands only in `texts`
    properties: Names = frozenset()  # the formats of runs
    texts: Names = frozenset()  # of runs, and of blocks without runs
    dropped: Names = frozenset()  # notes of a word processor on a place that the translation has not
    letters: dict[str, str] = field(default_factory=dict)  # elements that stand for characters
    names: Names = frozenset()  # texts of blocks that stay, since they stand elsewhere too
    collapse: bool = False  # any white space is one space
    relabel: Callable[[str, Languages], str] | None = None  # the page in the new language


@dataclass(slots=True)
class Element:
    """An element in a block."""

    token: XmlToken  # that opens it
    children: list[Element | XmlToken] = field(default_factory=list)
    end: str = ""  # the raw closing tag

    @property
    def name(self) -> str:
        """Its name, with the usual prefix."""
        return self.token.name

    @property
    def tag(self) -> str:
        """Its name, with the prefix of the document."""
        return re.split(r"[\s/>]", self.token.raw[1:], maxsplit=1)[0]

    def within(self) -> Iterator[Element]:
        """All elements in it."""
        for child in self.children:
            if isinstance(child, Element):
                yield child
                yield from child.within()

    def elements(self, name: str) -> Iterator[Element]:
        """Elements of a name directly in it."""
        return (child for child in self.children if isinstance(child, Element) and child.name == name)


class Form(NamedTuple):
    """The XML around a text: that of its run, and its own."""

    head: str = ""
    text: str = ""  # the tag
    tail: str = ""
    spaces: bool = False  # it says that spaces at the ends of its text stay

    def written(self, text: str) -> str:
        """The XML of a text."""
        escaped = escape(text, quote=False).replace("\r", "&#13;")
        space = ' xml:space="preserve"' if self.spaces and text != text.strip() else ""
        return f"{self.head}<{self.text}{space}>{escaped}</{self.text}>{self.tail}" if self.text else escaped


_PLAIN = Form()
_GONE = ("w:del", "w:moveFrom")  # text that is not there any more


class BlockItem(NamedTuple):
    """A part of a block: text, or markup that opens, closes, is a point, or ends a text."""

    kind: str  # text, open, close, point, break, fixed, end
    raw: str = ""
    text: str = ""
    form: Form = _PLAIN
    name: str = ""  # of what is opened and closed


class XmlDocument(Template):
    """A page of XML."""

    lacking = "xmlcharrefreplace"  # letters that its encoding has not

    def __init__(self, content: str, rules: Rules) -> None:
        super().__init__(content)
        self._rules = rules
        path: list[Element] = []  # the block that is read, and the elements in it that are open
        translated, count = [True], 0
        for token in xml_tokens(content):
            if token.kind == "open":
                if len(translated) == 1 and token.name != (rules.root or token.name):
                    raise InputError(f"the XML has <{token.name}> where this format has <{rules.root}>.")
                translated.append(self._is_translated(token, translated[-1]))
            if token.kind == "open" and (path or (token.name in rules.blocks and translated[-1])):
                element = Element(token)
                if path:
                    path[-1].children.append(element)
                path.append(element)
            elif not path:
                self.keep(token.raw)
            elif token.kind == "close":
                path[-1].end = token.raw
                element = path.pop()
                if not path:
                    self.keep(self.raw(element))
            else:
                path[-1].children.append(token)
            if token.kind == "close":
                translated.pop()
            count = count + 1 if path else 0
            if count > MOST_TOKENS:
                raise InputError(f"a block of the XML has more than {MOST_TOKENS:,} tags and texts; split it.")

    def write(self, translated: Sequence[Sequence[Part]], languages: Languages = ("", "")) -> str:
        """The page."""
        page = super().write(translated, languages)
        return self._rules.relabel(page, languages) if self._rules.relabel and languages[1] else page

    def raw(self, node: Element | XmlToken) -> str:
        """The XML of a node, with marks for the texts of blocks in it."""
        if isinstance(node, XmlToken):
            return node.raw
        if node.name in self._rules.blocks and self.is_text(self.text(node)):
            return self.block(node)
        return node.token.raw + "".join(map(self.raw, node.children)) + node.end

    def block(self, element: Element) -> str:
        """The XML of a block, with a mark for its text."""
        return element.token.raw + self.text_mark(element) + element.end

    def text_mark(self, element: Element) -> str:
        """The mark for the text of an element; a CDATA section that is all of it stays one."""
        nodes = list(joined(element.children))
        visible = [node for node in nodes if isinstance(node, Element) or node.raw.strip()]
        cdata = len(visible) == 3 and isinstance(visible[0], XmlToken) and visible[0].raw == _CDATA
        items = list(self.items(visible[1:2] if cdata else nodes, cdata))
        block = _Block(items, self._rules.collapse, partial(self.written, cdata=cdata))
        mark = self.mark(block.built, block.write)
        return "".join(mark if node is visible[1] else self.raw(node) for node in nodes) if cdata else mark

    def items(self, children: Iterable[Element | XmlToken], cdata: bool = False) -> Iterator[BlockItem]:
        """The parts of a block."""
        rules, spaced = self._rules, False
        for child in _fields(children) if rules.runs else joined(children):
            if isinstance(child, XmlToken):
                yield from self._token_items(child, cdata)
            elif child.name in rules.runs:
                yield from self._run_items(child)
            elif child.name in rules.texts:
                yield from _lines(child, Form(text=child.tag, spaces=True))
            elif child.name in rules.breaks:
                yield BlockItem("break", self.raw(child))
            elif child.name in rules.letters:  # a space, or several
                if not spaced:
                    yield BlockItem("text", text=rules.letters[child.name])
                if spaced or child.token.attributes:
                    yield BlockItem("point", self.raw(child))
            elif child.name in rules.kept or not self._is_translated(child.token, True):
                yield BlockItem("fixed", self.raw(child), readable(self.text(child)))
            elif child.name in rules.inline and child.children:
                yield BlockItem("open", child.token.raw, name=child.name)
                yield from self.items(child.children)
                yield BlockItem("close", child.end, name=child.name)
            elif child.name not in rules.dropped:
                seen = child.name not in _GONE and not any(element.name in rules.blocks for element in child.within())
                text = readable(self.text(child)) if seen else ""
                yield BlockItem("fixed" if text else "point", self.raw(child), text)
            spaced = isinstance(child, XmlToken) and child.text[-1:].isspace()

    def _token_items(self, token: XmlToken, cdata: bool) -> Iterator[BlockItem]:
        if token.kind == "text" and not self._rules.runs:
            yield from self.text_items(token.text, cdata)
        elif token.raw.startswith("&"):  # an entity is read as a word
            yield BlockItem("fixed", token.raw, token.raw)
        elif token.raw.strip() and token.raw not in (_CDATA, _CDATA_END):
            yield BlockItem("point", token.raw)

    def text_items(self, text: str, cdata: bool) -> Iterator[BlockItem]:
        """The parts of a text: its lines, and placeholders in it."""
        if self._rules.collapse:
            yield BlockItem("text", text=text)
            return
        for number, line in enumerate(text.split("\n")):
            if number:
                yield BlockItem("break", "\n")
            for kind, raw, name in pieces(line):
                yield BlockItem(kind, self.written(raw, cdata=cdata), raw, name=name)

    def written(self, text: str, form: Form = _PLAIN, cdata: bool = False) -> str:
        """The XML of a text."""
        text = self.encoded(_ILLEGAL.sub("", text))
        if cdata:
            return text.replace(_CDATA_END, f"]]{_CDATA_END}{_CDATA}>")
        return form.written(text) if text else ""

    def encoded(self, text: str) -> str:
        """A text as the format writes it, before that of XML."""
        return text

    def is_text(self, text: str) -> bool:
        """Whether the text of a block is to be translated."""
        return is_translatable(text) and text not in self._rules.names

    def _run_items(self, run: Element) -> Iterator[BlockItem]:
        rules = self._rules
        properties = "".join(_raw(child) for child in run.children if child.name in rules.properties)
        head, tail = f"<{run.tag}>{properties}", f"</{run.tag}>"
        form = Form(head, run.tag[:-1] + "t", tail, spaces=run.name != "a:r")  # PowerPoint keeps all
        for child in run.children:
            if isinstance(child, XmlToken) or child.name in rules.properties | rules.dropped:
                continue
            if child.name in rules.texts:
                yield from _lines(child, form)
            elif child.name in rules.letters:
                yield BlockItem("text", text=rules.letters[child.name], form=form)
            else:
                yield BlockItem("break" if child.name in rules.breaks else "point", head + self.raw(child) + tail)

    def text(self, element: Element) -> str:
        """The text of an element, without that of blocks in it."""
        return "".join(self._texts(element))

    def _texts(self, element: Element) -> Iterator[str]:
        for child in element.children:
            if isinstance(child, Element):
                yield from self._texts(child) if child.name not in self._rules.blocks else ()
            elif not self._rules.runs or element.name in self._rules.texts:
                yield child.text

    def _is_translated(self, token: XmlToken, around: bool) -> bool:
        says = token.attributes.get("translate") or token.attributes.get("translatable")
        if token.attributes.get("mtype") == "protected":
            return False
        return says in ("yes", "true") if says else around and token.name not in self._rules.kept


class _Block:
    """The text of a block as segments, whose tags are raw XML and changes of format."""

    def __init__(self, items: list[BlockItem], collapse: bool, written: Callable[[str, Form], str]) -> None:
        self._written = written
        letters: Counter[Form] = Counter()
        for item in items:
            letters[item.form] += len(item.text) if item.kind == "text" else 0
        self._own = letters.most_common(1)[0][0]
        self._forms = {f"{_FORM}{number}": form for number, form in enumerate(letters)}
        marks = {form: mark for mark, form in self._forms.items()}
        builder, before = SegmentBuilder(collapse), self._own
        for item in [*items, BlockItem("end")]:
            now = item.form if item.kind == "text" else before if item.kind == "point" else self._own
            if before not in (now, self._own):
                builder.close(marks[before], _FORM)
            if now not in (before, self._own):
                builder.open(marks[now], marks[now])
            before = now
            add_piece(builder, item.kind, item.text, item.raw, item.name)
        self.built = builder.build()

    def write(self, parts: list[Part]) -> str:
        """The XML of the block."""
        form, text, xml = self._own, "", list[str]()
        for part in [*parts, Part(_FORM, markup=True)]:
            if not part.markup or part.text.isspace():
                text += part.text
                continue
            xml.append(self._written(text, form))
            text = ""
            if part.text.startswith(_FORM):
                form = self._forms.get(part.text, self._own)
            else:
                xml.append(part.text)
        return "".join(xml)


def _raw(node: Element | XmlToken) -> str:
    """The XML of a node as it is."""
    return node.raw if isinstance(node, XmlToken) else node.token.raw + "".join(map(_raw, node.children)) + node.end


def joined(children: Iterable[Element | XmlToken]) -> Iterator[Element | XmlToken]:
    """The same, with neighboring texts as one: expat cuts them at references and line ends."""
    for kind, group in groupby(children, lambda child: isinstance(child, XmlToken) and child.kind):
        nodes = list(group)
        if kind == "text":
            texts = [node for node in nodes if isinstance(node, XmlToken)]
            yield XmlToken("text", "".join(text.raw for text in texts), text="".join(text.text for text in texts))
        else:
            yield from nodes


def _fields(children: Iterable[Element | XmlToken]) -> Iterator[Element | XmlToken]:
    """The same, with all from the beginning of a field of Word to its end as one element, which no rule names.

    Of one that ends in another block, such as a table of contents, only what is no text of it. Raises InputError for
    more than MOST_FIELDS of these.
    """
    for _ in range(MOST_FIELDS):
        field, depth = Element(XmlToken("open")), 0
        for child in children:
            ends = [kind for kind in _field_ends(child) if kind != "separate"]
            if depth > 0 or "begin" in ends:
                depth += 2 * ends.count("begin") - len(ends)
                field.children.append(child)
            else:
                yield child
            if depth <= 0 and field.children:
                yield field
                field, depth = Element(XmlToken("open")), 0
        if not field.children:
            return
        signs = (place for place, child in enumerate(field.children, 1) if "separate" in _field_ends(child))
        first = next(signs, len(field.children))
        children, field.children[first:] = field.children[first:], []
        yield field
    raise InputError(f"a paragraph of the document has more than {MOST_FIELDS} fields without an end; split it.")


def _field_ends(node: Element | XmlToken) -> Iterator[str]:
    """The kinds of the signs of fields in a node: begin, separate, end."""
    if isinstance(node, Element):
        if kind := node.token.attributes.get("w:fldCharType"):
            yield kind
        for child in node.children:
            yield from _field_ends(child)


def _lines(element: Element, form: Form) -> Iterator[BlockItem]:
    """The lines of a text element, each a text of its own."""
    text = "".join(child.text for child in element.children if isinstance(child, XmlToken))
    for number, line in enumerate(text.split("\n")):
        if number:
            yield BlockItem("break", "\n")
        yield BlockItem("text", text=line, form=form)
