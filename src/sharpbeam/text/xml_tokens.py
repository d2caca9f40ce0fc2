"""The tokens of XML with their raw text, cut by expat, so that what is not translated is written byte for byte.

Nothing is fetched and no entity is replaced: a reference stays as it stands in the text. A document type may declare
short texts as entities, as string files of Android do; a file, a long text, or entities in entities are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal
from xml.parsers import expat

from sharpbeam.errors import InputError

MOST_DEPTH = 250  # elements in elements
MOST_ENTITY = 100  # letters of an entity, which expat puts into attributes
_CHUNK = 1 << 16  # bytes that are parsed at once
_OFFICE = ("http://schemas.openxmlformats.org/{}/2006/main", "http://purl.oclc.org/ooxml/{}/main")
_ODF = "urn:oasis:names:tc:opendocument:xmlns:{}:1.0"
_XLIFF = "urn:oasis:names:tc:xliff:document:"
_PREFIXES = {
    **{space.format("wordprocessingml"): "w:" for space in _OFFICE},
    **{space.format("drawingml"): "a:" for space in _OFFICE},
    **{space.format("spreadsheetml"): "s:" for space in _OFFICE},
    **{_ODF.format(name): f"{name}:" for name in ("text", "office")},
    "http://purl.org/dc/elements/1.1/": "dc:",
    "http://www.w3.org/XML/1998/namespace": "xml:",
    "urn:iso:std:iso:30042:ed-2": "",
    **{_XLIFF + version: "" for version in ("1.1", "1.2", "2.0", "2.1", "2.2")},
}


@dataclass(slots=True)
class XmlToken:
    """A part of a page; the raw texts of all tokens make it up.

    An element that closes itself has an opening token with its raw text, and a closing one without any.
    """

    kind: Literal["open", "close", "text", "other"]
    raw: str = ""
    name: str = ""  # of an element, with the usual prefix of its namespace
    text: str = ""
    attributes: dict[str, str] = field(default_factory=dict)


def xml_tokens(page: str) -> Iterator[XmlToken]:
    """The tokens of a page, in order; raises InputError for one that is not well-formed XML, or not safe."""
    content = page.encode()
    tokens: list[XmlToken] = []
    starts: list[int] = []
    parser = expat.ParserCreate("utf-8", "}")
    depth = 0

    def add(token: XmlToken) -> None:
        tokens.append(token)
        starts.append(parser.CurrentByteIndex)

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MOST_DEPTH:
            raise InputError(f"the XML has more than {MOST_DEPTH} elements in each other.")
        add(XmlToken("open", name=_short(name), attributes={_short(key): value for key, value in attributes.items()}))

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        add(XmlToken("close", name=_short(name)))

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = lambda text: add(XmlToken("text", text=text))
    parser.StartCdataSectionHandler = parser.EndCdataSectionHandler = lambda: add(XmlToken("other"))
    parser.DefaultHandler = lambda _: add(XmlToken("other"))  # without it, entities would be replaced by their text
    parser.EntityDeclHandler = _check_entity
    for at in range(0, len(content) + 1, _CHUNK):
        last = at + _CHUNK > len(content)
        try:
            parser.Parse(content[at : at + _CHUNK], last)
        except expat.ExpatError as error:
            raise InputError(f"this is not XML that can be read: {error}.") from error
        ends = [*starts[1:], len(content)]
        ready = len(tokens) if last else max(0, len(tokens) - 1)  # the end of the last one is not known yet
        for token, first, stop in zip(tokens[:ready], starts, ends, strict=False):
            token.raw = content[first:stop].decode()
            yield token
        del tokens[:ready], starts[:ready]


def _short(name: str) -> str:
    """A name with the prefix that its namespace has in the rules; ?: for a namespace that is in none."""
    space, _, local = name.rpartition("}")
    return _PREFIXES.get(space, "?:") + local if space else local


def _check_entity(name: str, parameter: int, value: str | None, *_: str | None) -> None:
    if parameter or value is None or "&" in value or "%" in value or len(value) > MOST_ENTITY:
        raise InputError(
            f"the document type declares the entity {name:.40}, which is a file, has entities in it or more than "
            f"{MOST_ENTITY} letters; refused."
        )
