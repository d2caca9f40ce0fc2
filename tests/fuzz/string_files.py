"""Random files of texts for translators, programs and films, with odd but legal features, and what stays of them."""

from __future__ import annotations

import json
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
    return say(draw, most).replace("x>y", "xy")


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


def _value(draw: random.Random, say: Say, *odd: str) -> str:
    """Words around placeholders and escapes."""
    kinds = (*odd, "%s", "%1$@", "{0}", "{name}", _words(draw, say, 3))
    parts = draw.choices(kinds, k=draw.randint(1, 4))
    return " ".join([_words(draw, say, 2), *parts, "end"])


def properties(draw: random.Random, say: Say) -> bytes:
    odd = (r"\u00e9t\u00e9", r"\n", r"\tx", "\\\n    ", "it''s", r"C\:\\d", "= :", r"\ud83d\ude42")
    lines = []
    for number in range(draw.randint(1, 8)):
        sign = draw.choice(("=", " = ", ":", "  ", "\t= "))
        entry = f"   key\\ {number}{sign}{_value(draw, say, *odd)}"
        lines.append(draw.choice(("# a = b \\", "! x", "", entry, entry, f"only{number}")))
    page = "\n".join([*lines, "last = x y"]).replace("\n", draw.choice(("\n", "\r\n")))
    return page.encode(draw.choice(("utf-8", "latin-1")))


def properties_read(content: bytes) -> dict[str, str]:
    """Keys and values, by the rules of java.util.Properties."""
    try:
        page = content.decode()
    except UnicodeDecodeError:
        page = content.decode("latin-1")
    pairs: dict[str, str] = {}
    lines = iter(re.split("\r\n|\n|\r", page))
    for start in lines:
        line = start.lstrip(" \t\f")
        if not line or line[0] in "#!":
            continue
        while len(line) - len(line.rstrip("\\")) & 1:
            line = line[:-1] + next(lines, "").lstrip(" \t\f")
        key = re.match(r"(?:\\.|[^\\=: \t\f])*", line)
        assert key is not None
        value = re.sub(r"^[ \t\f]*[=:]?[ \t\f]*", "", line[key.end() :])
        units = re.sub(r"\\u(....)", lambda code: chr(int(code[1], 16)), value)
        plain = re.sub(r"\\(.)", lambda sign: {"n": "\n", "t": "\t"}.get(sign[1], sign[1]), units)
        pairs[key[0]] = plain.encode("utf-16", "surrogatepass").decode("utf-16")
    return pairs


def strings(draw: random.Random, say: Say) -> bytes:
    odd = (r"\"so\"", r"\n", "\n", r"\U00e9", "%ld", "/* no comment */", "//", ";")
    entries = [
        draw.choice(('/* a "b" = "c"; */', "// x = y\n", "", f'"key {number}" = "{_value(draw, say, *odd)}";'))
        + draw.choice(("", f'plain.{number}="{_value(draw, say, *odd)}" ;', '"only";'))
        for number in range(draw.randint(1, 8))
    ]
    return "\n".join(entries).encode(draw.choice(("utf-8", "utf-8-sig", "utf-16")))


def strings_read(content: bytes) -> Any:
    page = content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8")
    return page.replace("\n", r"\n").replace(r"\U00e9", "é")


def strings_kept(content: bytes) -> Any:
    """The file without its values, byte for byte."""
    page = content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8")
    parts = re.compile(r'(=\s*)?"(?:[^"\\]|\\.)*"|/\*.*?\*/|//[^\n]*', re.S)
    return parts.sub(lambda part: part[1] or part[0], page)


def arb(draw: random.Random, say: Say) -> str:
    def message(depth: int) -> str:
        text = _value(draw, say, "it''s", "'{'x'}'", "{d, date, ::yMMM}").replace("{0}", "{count}")
        if depth == 2 or draw.random() < 0.4:
            return text
        kind = draw.choice(("plural, offset:1", "plural,", "selectordinal,", "select,"))
        arms = " ".join(f"{name} {{{message(depth + 1)}}}" for name in ("few", "one", "other"))
        return f"{text} {{n, {kind} {arms}}}{draw.choice(('', ' ' + say(draw, 1)))}"

    texts: dict[str, Any] = {"@@locale": "en", "@@x": "y z"}
    for number in range(draw.randint(1, 6)):
        texts[f"k{number}"] = message(0)
        texts[f"@k{number}"] = {"description": say(draw, 3), "placeholders": {"n": {"type": "int", "example": "a b"}}}
    return json.dumps(texts, indent=draw.choice((None, 2)), ensure_ascii=draw.random() < 0.5)


def arb_kept(content: str) -> Any:
    """Everything that is no text, and the arguments, choices and arms of messages."""
    texts = json.loads(content)
    parts = re.compile(r"\{\w+(?:, \w+)?,|\{\w+\}|(?:few|one|other) \{|'\{'")
    return [(key, sorted(parts.findall(text)) if key[0] != "@" else text) for key, text in texts.items()]


def ass(draw: random.Random, say: Say) -> bytes:
    odd = (r"{\i1}so{\i0}", r"{\an8\fnArial Black}", r"{\k20}la {\k30}la", r"\N", r"\h", "{a note}", "a, b")
    lines = ["[Script Info]", "; a comment", "Title: a b", "", "[Events]", "Format: Start, End, Name, Text"]
    for number in range(1, draw.randint(2, 8)):
        text = draw.choice(
            (_value(draw, say, *odd), r"{\p1}m 0 0 l 9 9 b{\p0}", "12", f"- {say(draw, 2)}\\N- {say(draw, 2)}")
        )
        kind = draw.choice(("Dialogue", "Dialogue", "Comment"))
        lines.append(f"{kind}: 0:00:0{number}.00,0:00:0{number}.90,A b,{text}")
    return draw.choice(("\n", "\r\n")).join([*lines, ""]).encode(draw.choice(("utf-8", "utf-8-sig", "utf-16")))


def _ass_lines(content: bytes) -> list[str]:
    return content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8").splitlines(keepends=True)


def ass_read(content: bytes) -> list[tuple[str, int]]:
    """Lines with the number of line ends in them, whose places may change."""
    return [("".join(re.split(r"\s+|\\N", line)), line.count("\\N")) for line in _ass_lines(content)]


def ass_kept(content: bytes) -> Any:
    """Lines without their text, and the codes in it."""
    heads = []
    for line in _ass_lines(content):
        head, sign, text = line.rpartition(",A b,")
        codes = sorted(re.findall(r"\{\\[^{}]*\}|\\h", text))
        heads.append((head, sign, codes) if line.startswith("Dialogue") else line)
    return heads
