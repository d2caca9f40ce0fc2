"""Random files of texts for translators and programs, with odd but legal features, and what stays of them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from html import escape
from typing import Any
from xml.etree import ElementTree

Say = Callable[[random.Random, int], str]
_HOLDERS = ("%s", "%1$d", "{name}", "${x}", "&amp;nbsp;", "")


def _words(draw: random.Random, say: Say, most: int) -> str:
    """Words of which no two make a tag, whose place would be in a word."""
    return say(draw, most).replace("x>y", "x > y")


def _xml_text(draw: random.Random, say: Say) -> str:
    text = escape(_words(draw, say, 4), quote=False).replace("é", draw.choice(("é", "&#233;", "&#xe9;")))
    return f"{text} {draw.choice(_HOLDERS)}"


def _cdata(draw: random.Random, say: Say) -> str:
    return f"<![CDATA[{_words(draw, say, 3)} &amp; {_words(draw, say, 2)}]]>"


def _encoded(draw: random.Random, page: str, *encodings: str) -> bytes:
    encoding = draw.choice(("utf-8", "utf-8-sig", "utf-16", *encodings))
    head = f'<?xml version="1.0" encoding="{encoding.removesuffix("-sig")}"?>\n'
    bare = encoding.startswith("utf-8") and draw.random() < 0.5
    return ((not bare) * head + page).encode(encoding)


def xliff(draw: random.Random, say: Say) -> bytes:
    second, prefix = draw.random() < 0.5, draw.choice(("", "x:"))
    space = f'xmlns{":x" if prefix else ""}="urn:oasis:names:tc:xliff:document:{"2.0" if second else "1.2"}"'
    codes = ("{}<g id='1'>{}</g>", "{}<x id='1'/>{}", "{}<bpt id='2'>&lt;b></bpt>{}<ept id='2'>&lt;/b></ept>", "{}{}")
    codes_2 = ("{}<pc id='1'>{}</pc>", "{}<ph id='1'/>{}", "{}<sc id='2'/>{}<ec startRef='2'/>", "{}<!-- c -->{}")

    def unit(number: int) -> str:
        own = draw.choice(codes_2 if second else codes)
        source = own.format(_xml_text(draw, say), " " + draw.choice((_xml_text, _cdata))(draw, say))
        source = source if draw.random() < 0.7 else f"{source}\n{_xml_text(draw, say)}"
        target = draw.choice(("", "", "<target/>", "<target >made by &#104;and</target>"))
        keep = draw.choice(("", "", "", " translate='no'"))
        if second:
            segment = f"<segment id='s' >\n  <source>{source}</source>{target}</segment>"
            return f"<unit id='{number}'{keep}><notes><note>x y</note></notes>{segment}</unit>"
        return f"<trans-unit id='{number}'{keep}>\n\t<source>{source}</source>{target}<note>x y</note></trans-unit>"

    units = "\n".join(unit(number) for number in range(draw.randint(1, 5)))
    if second:
        page = f"<xliff {space} version='2.0' srcLang='en'><file id='f'>{units}</file></xliff>"
    else:
        file = "<file original='a>b' source-language='en' datatype='x'>"
        page = f"<xliff {space} version='1.2'>{file}<body>{units}</body></file></xliff>"
    return _encoded(draw, re.sub(r"(</?)(?=[a-z])", rf"\1{prefix}", page), "iso-8859-1")


def android(draw: random.Random, say: Say) -> bytes:
    def value() -> str:
        kind = draw.choice(("text", "tag", "cdata", "escaped", "quoted", "kept", "entity"))
        text = _xml_text(draw, say)
        return {
            "text": text,
            "tag": f"{text} <b>{_xml_text(draw, say)} <i>x</i></b> z",
            "cdata": _cdata(draw, say),
            "escaped": text + r" it\'s \"so\" \n at 100\u0025 &lt;b>bold&lt;/b>",
            "quoted": f'"{text}"',
            "kept": f"{text} <xliff:g id='n' example='1 x'>%1$s</xliff:g>.",
            "entity": f"{text} &app; {text}",
        }[kind]

    def entry(number: int) -> str:
        kind = draw.random()
        if kind < 0.6:
            keep = draw.choice(("", "", " translatable='false'"))
            return f"<string  name='s{number}'{keep}>{value()}</string>"
        if kind < 0.8:
            forms = "\n".join(f"<item quantity='{form}'>{value()}</item>" for form in ("one", "other"))
            return f"<plurals name='p{number}'>{forms}</plurals>"
        return f"<string-array name='a{number}'><item>{value()}</item><item>@string/s1</item><item/></string-array>"

    body = "\n    ".join(f"<!-- <b> & {number} -->{entry(number)}" for number in range(draw.randint(1, 6)))
    page = f"<resources xmlns:xliff='urn:oasis:names:tc:xliff:document:1.2'>\n    {body}\n</resources>\n"
    return _encoded(draw, '<!DOCTYPE resources [<!ENTITY app "My App">]>\n' + page, "iso-8859-1")


def _tree(content: bytes) -> ElementTree.Element:
    return ElementTree.fromstring(content)


def _letters(text: str | None) -> str:
    """A text without spaces, which may be on either side of a tag, and without the backslashes of Android."""
    return "".join(re.sub(r"""\\(['"])""", r"\1", text or "").replace("\\u0025", "%").split())


def _nodes(node: ElementTree.Element, text: bool) -> Any:
    """A node; without `text` the names and attributes of what is in it, in any order."""
    own = node.tag.rpartition("}")[2], sorted(node.attrib.items())
    children = [_nodes(child, text) for child in node]
    if text:
        return own, _letters(node.text), children, _letters(node.tail)
    return own, sorted(children, key=repr)


def android_read(content: bytes) -> Any:
    return _nodes(_tree(content), True)


def android_kept(content: bytes) -> Any:
    """The structure, and all outside of texts, byte for byte."""
    page = content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "latin-1")
    return _nodes(_tree(content), False), re.sub(r"(?s)(<(string|item)\b[^>]*(?<!/)>).*?(</\2>)", r"\1\3", page)


def _units(content: bytes) -> Any:
    """The tree without targets by a machine, and the source and the target of each unit."""
    tree, pairs = _tree(content), []
    for unit in tree.iter():
        if unit.tag.rpartition("}")[2] not in ("trans-unit", "segment"):
            continue
        source, target = unit.find("{*}source"), unit.find("{*}target")
        written = target is not None and "".join(target.itertext()) != "made by hand"
        assert source is not None
        if written and target is not None:
            pairs.append((source, target))
            unit.remove(target)
        unit.attrib.pop("state", "")
    return tree, pairs


def xliff_kept(content: bytes) -> Any:
    tree, pairs = _units(content)
    for source, target in pairs:
        if "".join(target.itertext()):
            assert _nodes(source, False)[1] == _nodes(target, False)[1]
            target.text = ""
    return _nodes(tree, True)


def xliff_read(content: bytes) -> Any:
    tree, pairs = _units(content)
    for source, target in pairs:
        if "".join(target.itertext()):
            assert _nodes(source, True)[1:] == _nodes(target, True)[1:]
    return _nodes(tree, True)
