"""DOCX: the paragraphs of the text, of headers, footers, notes and boxes; formats move with their words.

A paragraph is a row of runs, each with a format. Neighboring runs of one format are one, the format of most letters is
the paragraph's own, and other formats, links and the like are tags. Fields, pictures and deleted text stay as they are.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from sharpbeam.documents.formats.archives import Archive
from sharpbeam.documents.segment import Part, Segment, SegmentBuilder, check_count, is_translatable
from sharpbeam.errors import InputError, needs_extra

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_PARTS = re.compile(r"word/(document|header\d*|footer\d*|footnotes|endnotes)\.xml")
_CONTAINERS = frozenset(_W + name for name in ("hyperlink", "ins", "smartTag"))
_NOISE = frozenset(_W + name for name in ("proofErr", "lastRenderedPageBreak"))
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # in XML


class DocxDocument:
    """A text of Word."""

    def __init__(self, content: bytes) -> None:
        with needs_extra("reading DOCX", "documents"):
            from lxml import etree
        self._archive = Archive(content, "a DOCX file")
        names = [name for name in self._archive.names if _PARTS.fullmatch(name)]
        if "word/document.xml" not in names:
            raise InputError("the document has no word/document.xml; it is not a DOCX file.")
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
        self._trees: dict[str, Any] = {}
        for name in names:
            try:
                tree = etree.fromstring(self._archive.read(name), parser).getroottree()
            except etree.XMLSyntaxError as error:
                raise InputError(f"{name} in the document is not XML: {error}.") from error
            if tree.docinfo.internalDTD is not None:
                raise InputError(f"{name} in the document declares a document type, which may hold entities; refused.")
            self._trees[name] = tree
        self._paragraphs: list[_Paragraph] = []
        count = 0
        for tree in self._trees.values():
            for paragraph in list(tree.iter(_W + "p")):
                if is_translatable(_own_text(paragraph)):
                    self._paragraphs.append(_Paragraph(paragraph))
                    count = check_count(count, self._paragraphs[-1].segments)

    @property
    def segments(self) -> Sequence[Segment]:
        """Those of the paragraphs with text, cut at line breaks."""
        return [segment for paragraph in self._paragraphs for segment in paragraph.segments]

    def write(self, translated: Sequence[Sequence[Part]]) -> bytes:
        """The DOCX file."""
        from lxml import etree

        first = 0
        for paragraph in self._paragraphs:
            last = first + len(paragraph.segments)
            paragraph.fill(translated[first:last])
            first = last
        how = {"encoding": "UTF-8", "xml_declaration": True, "standalone": True}
        return self._archive.replaced({name: etree.tostring(tree, **how) for name, tree in self._trees.items()})


class _Paragraph:
    """A paragraph as a segment whose tags are keys of formats ("f0") and elements ("e0")."""

    def __init__(self, element: Any) -> None:
        self._element = element
        self._formats: dict[str, tuple[int, Any]] = {}  # by their XML: a number, and the element or None
        self._elements: list[list[Any]] = []
        items = list(self._items(element, []))
        letters: Counter[str] = Counter()
        for kind, key, text in items:
            letters[key] += len(text) if kind == "text" else 0
        self._own = letters.most_common(1)[0][0] if letters else ""
        builder = SegmentBuilder(collapse=False)
        before = self._own
        for kind, key, text in [*items, ("end", "", "")]:
            now = key if kind == "text" else self._own if kind not in ("point", "break") else before
            if before not in (now, self._own):
                builder.close(before, "/f")
            if now not in (before, self._own):
                builder.open(now, f"f{self._formats[now][0]}")
            before = now
            if kind == "text":
                builder.add(text)
            elif kind in ("point", "break"):
                (builder.point if kind == "point" else builder.boundary)(f"e{key}")
            elif kind == "open":
                builder.open(f"e{key}", f"e{key}")
            elif kind == "close":
                builder.close(f"e{key}", "/e")
        self._built = builder.build()
        self.segments = [part for part in self._built if isinstance(part, Segment)]

    def fill(self, translated: Sequence[Sequence[Part]]) -> None:
        """Put the translations of its segments into the paragraph."""
        for child in list(self._element):
            if child.tag != _W + "pPr":
                self._element.remove(child)
        formats = {f"f{number}": element for number, element in self._formats.values()}
        own = self._formats[self._own][1] if self._own in self._formats else None
        inside, form = [self._element], [own]
        texts = iter(translated)
        everything: list[Part] = []
        for item in self._built:
            everything += next(texts) if isinstance(item, Segment) else [Part(item) if isinstance(item, str) else item]
        for part in everything:
            if not part.markup:
                self._run(inside[-1], form[-1], part.text)
            elif part.text == "/f":
                form.pop()
            elif part.text == "/e":
                inside.pop()
                form.pop()
            elif part.text in formats:
                form.append(formats[part.text])
            else:
                elements = self._elements[int(part.text.lstrip("e"))]
                for element in elements:
                    inside[-1].append(element)
                if elements[0].tag in _CONTAINERS:
                    inside.append(elements[0])
                    form.append(own)

    def _run(self, parent: Any, form: Any, text: str) -> None:
        if not text:
            return
        run = parent.makeelement(_W + "r")
        parent.append(run)
        if form is not None:
            run.append(copy.deepcopy(form))
        for at, piece in enumerate(_ILLEGAL.sub("", text).split("\t")):
            if at:
                run.append(run.makeelement(_W + "tab"))
            if piece:
                found = run.makeelement(_W + "t")
                found.text = piece
                found.set(_SPACE, "preserve")
                run.append(found)

    def _keep(self, elements: list[Any]) -> str:
        self._elements.append(elements)
        return str(len(self._elements) - 1)

    def _items(self, parent: Any, field: list[Any]) -> Iterator[tuple[str, str, str]]:
        """Texts with the key of their format, points, and the ends of containers."""
        depth = 0
        for child in list(parent):
            kinds = [grand.get(_W + "fldCharType") for grand in child.iter(_W + "fldChar")]
            if depth or "begin" in kinds:
                depth += kinds.count("begin") - kinds.count("end")
                field.append(child)
                if depth <= 0:
                    yield "point", self._keep(list(field)), ""
                    field.clear()
                    depth = 0
            elif child.tag == _W + "r":
                yield from self._run_items(child)
            elif child.tag in _CONTAINERS:
                key = self._keep([child])
                yield "open", key, ""
                yield from list(self._items(child, []))
                yield "close", key, ""
                for grand in list(child):
                    child.remove(grand)
            elif child.tag not in _NOISE and child.tag != _W + "pPr":
                yield "point", self._keep([child]), ""
        if field:  # it ends in another paragraph
            yield "point", self._keep(list(field)), ""

    def _run_items(self, run: Any) -> Iterator[tuple[str, str, str]]:
        from lxml import etree

        form = run.find(_W + "rPr")
        key = "" if form is None else etree.tostring(form, method="c14n").decode()
        self._formats.setdefault(key, (len(self._formats), None if form is None else copy.deepcopy(form)))
        for child in list(run):
            if child.tag == _W + "t":
                yield "text", key, child.text or ""
            elif child.tag == _W + "tab":
                yield "text", key, "\t"
            elif child.tag == _W + "noBreakHyphen":
                yield "text", key, "\u2011"
            elif child.tag not in _NOISE and child.tag != _W + "rPr":
                alone = run.makeelement(_W + "r")
                if form is not None:
                    alone.append(copy.deepcopy(form))
                alone.append(child)  # moved, not copied: paragraphs inside of it are translated in their place
                yield "break" if child.tag == _W + "br" else "point", self._keep([alone]), ""


def _own_text(paragraph: Any) -> str:
    """The text of a paragraph without that of text boxes in it."""
    texts = (text for text in paragraph.iter(_W + "t") if next(text.iterancestors(_W + "p")) is paragraph)
    return "".join(text.text or "" for text in texts)
