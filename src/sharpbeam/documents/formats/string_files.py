"""XML files of texts for translators and programs: XLIFF 1.2 and 2, and the strings of Android."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape

from sharpbeam.documents.formats.html import INLINE, relabeled
from sharpbeam.documents.formats.interface import Languages
from sharpbeam.documents.formats.values import escaped, unescaped
from sharpbeam.documents.formats.xml import BlockItem, Element, Rules, XmlDocument, joined
from sharpbeam.text.segment import is_translatable
from sharpbeam.text.xml_tokens import XmlToken

_ATTRIBUTES = r"""(?:\s+[\w:.-]+\s*=\s*(?:"[^"]*"|'[^']*'))*"""
_LANGUAGE_OF = {"file": ("source-language", "target-language"), "xliff": ("srcLang", "trgLang")}
_ROOT = re.compile(rf"<(?:[\w.-]+:)?(file|xliff)\b{_ATTRIBUTES}\s*/?>")
_IDS_1, _OPEN_2, _CLOSE_2 = ("rid", "id"), ("id",), ("startRef",)
_PAIRS = {  # markup that opens and closes in elements of its own, and the attributes that say which belong together
    **dict.fromkeys(("bpt", "bx"), ("open", _IDS_1)),
    **dict.fromkeys(("ept", "ex"), ("close", _IDS_1)),
    **dict.fromkeys(("sc", "sm"), ("open", _OPEN_2)),
    **dict.fromkeys(("ec", "em"), ("close", _CLOSE_2)),
}
_ENDS = r"(?:\\u0020){1,9}\Z"  # of Android: a space at an end, which would not stay without its escape
_QUOTES = re.compile(
    rf'"|\A\\u0020|(?={_ENDS})\\u0020|(?:[^"\\]|(?!{_ENDS})\\.|\\$)+', re.S
)  # text in them keeps its spaces
_REFERENCE = re.compile(r"\s*[@?][\w.:+/]+\s*")  # to another string, or a part of the theme


def with_attribute(tag: str, name: str, value: str) -> str:
    """A raw tag with an attribute."""
    present = re.compile(rf"""(?<=\s){name}\s*=\s*(?:"[^"]*"|'[^']*')""")
    new = f'{name}="{escape(value)}"'
    if present.search(tag):
        return present.sub(lambda _: new, tag, count=1)
    return re.sub(r"\s*(/?>)\Z", lambda end: f" {new}{end[1]}", tag)


def _xliff_languages(page: str, languages: Languages) -> str:
    """The page with the target language where it has none, or another one."""

    def relabel(root: re.Match[str]) -> str:
        attributes = dict(re.findall(r"""([\w:.-]+)\s*=\s*["']([^"']*)""", root[0]))
        own, other = _LANGUAGE_OF[root[1]]
        code = relabeled(languages[1], ("", languages[1]))
        if own not in attributes or attributes.get(other, "").split("-")[0].lower() == code.split("-")[0].lower():
            return root[0]
        return with_attribute(root[0], other, code)

    return _ROOT.sub(relabel, page)


XLIFF = Rules(
    blocks=frozenset(("trans-unit", "segment")),
    root="xliff",
    inline=frozenset(("g", "mrk", "pc")),
    kept=frozenset(("alt-trans",)),
    relabel=_xliff_languages,
)
ANDROID = Rules(
    blocks=frozenset(("string", "item")),
    root="resources",
    inline=INLINE | {"annotation", "li", "ul"},
    breaks=frozenset(("br",)),
    kept=frozenset(("g", "style", "array", "integer-array")),
)


class XliffDocument(XmlDocument):
    """Units get a target, as machine translation; one with a text of its own stays."""

    def block(self, element: Element) -> str:
        """The unit with a target after its source."""
        sources = [child for name in ("source", "seg-source") for child in element.elements(name)]
        targets = list(element.elements("target"))
        if (
            not sources
            or not is_translatable(self.text(sources[-1]))
            or any(self.text(each).strip() for each in targets)
        ):
            return element.token.raw + "".join(map(self.raw, element.children)) + element.end
        source, tag, opening = sources[-1], sources[-1].tag[: -len(sources[-1].name)] + "target", element.token.raw
        begin = re.sub(r"\s*/>\Z", ">", targets[0].token.raw) if targets else f"<{tag}>"
        if element.name == "trans-unit":
            begin = with_attribute(with_attribute(begin, "state", "translated"), "state-qualifier", "mt-suggestion")
        else:
            opening = with_attribute(opening, "state", "translated")
        target = f"{begin}{self.text_mark(source)}</{tag}>"
        xml, space = [opening], ""
        for child in joined(element.children):
            xml.append(target if child in targets else self.raw(child))
            if child is source and not targets:
                xml.append(space + target)
            space = child.raw if isinstance(child, XmlToken) and not child.raw.strip() else space
        return "".join(xml) + element.end

    def items(self, children: Iterable[Element | XmlToken], cdata: bool = False) -> Iterator[BlockItem]:
        """The parts of a source; a sentence that it marks is a text of its own."""
        texts: list[Element | XmlToken] = []
        for child in children:
            attributes = child.token.attributes if isinstance(child, Element) else {}
            if isinstance(child, XmlToken) or (child.name not in _PAIRS and attributes.get("mtype") != "seg"):
                texts.append(child)
                continue
            yield from super().items(texts, cdata)
            texts.clear()
            if child.name in _PAIRS:
                kind, keys = _PAIRS[child.name]
                yield BlockItem(
                    kind, self.raw(child), name=next((attributes[key] for key in keys if key in attributes), "")
                )
            else:
                yield BlockItem("break", child.token.raw)
                yield from self.items(child.children)
                yield BlockItem("break", child.end)
        yield from super().items(texts, cdata)


class AndroidDocument(XmlDocument):
    """Strings, their plural forms and arrays; what is marked as translatable="false" stays."""

    def is_text(self, text: str) -> bool:
        """Whether a string has letters, and is no reference."""
        return super().is_text(text) and not _REFERENCE.fullmatch(text)

    def text_items(self, text: str, cdata: bool) -> Iterator[BlockItem]:
        """The parts of a string: quotes stay, and outside of them any white space is one space."""
        quoted = False
        for part in _QUOTES.findall(text):
            if part in ('"', r"\u0020"):
                quoted ^= part == '"'
                yield BlockItem("point", part)
            else:
                spaced = part if quoted else re.sub(r"\s+", " ", part)
                yield from super().text_items(unescaped(spaced), cdata)

    def encoded(self, text: str) -> str:
        """A text with the escapes of Android."""
        text = escaped(text, "\\'\"")
        return "\\" + text if text.startswith(("@", "?")) else text
