"""Texts that grow: a unit repeated in each format of documents and in requests, and structures that cost more."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any

Make = Callable[[int], Any]  # content of about so many bytes
_CUE = "1\n00:00:01,000 --> 00:00:02,000\n"
_UNITS = {  # repeated as they stand in each text format
    "letters": "a", "words": "ab ", "sentences": "Ab cd. ", "ends": ".", "capitals": "A. B", "digits": "0",
    "decimals": "1.", "spaces": " ", "tabs": "\t", "lines": "a\n", "empty lines": "\n", "returns": "a\r\n",
    "lone returns": "\r", "separators": "\u2028", "next lines": "a\x85", "percent": "%", "percent zeros": "%0",
    "named percent": "%(a", "placeholders": "%s a ", "braces": "{", "double braces": "{{", "closed braces": "{a} ",
    "dollars": "${", "ampersands": "&", "numbers": "&#1", "entities": "&amp;", "open entities": "&ampx", "less": "<",
    "tags": "<b>", "words in tags": "<b>ab</b> ", "sentences in tags": "<b>Ab.</b> ", "closers": "</b>a",
    "self closed": "<a/>", "points": "a<br/>", "unfinished": "<a b", "comments": "<!--", "closed comments": "<!--a-->",
    "declarations": "<!a", "instructions": "<?a", "attributes": "<a b='", "brackets": "[", "closed": "a] ",
    "links": "[a](", "whole links": "[a](b) ", "titles": '[a](b "', "images": "![a", "stars": "*a", "pairs": "**a** ",
    "lines of stars": "*\n", "underscores": "_a_", "ticks": "`a", "growing ticks": "``` a ` b ", "quotes": '"',
    "apostrophes": "it's ", "backslashes": "\\", "arrows": "-->", "pipes": "|", "table": "| a | b |\n", "commas": "a,",
    "semicolons": "a;", "addresses": "http://a/ ", "address": "http://a", "mail": "a@", "dashes": "- ", "nested": "> ",
    "items": "- a\n", "numbered": "1. a\n", "definitions": "[a]: b\n", "indents": "  - a\n", "hashes": "# a\n",
    "underlines": "a\n=\n", "ideographs": "\u65e5", "stops": "\u65e5\u3002", "kana": "\u30ab", "thai": "\u0e01",
    "accents": "e\u0301", "joiners": "a\u200d", "emoji": "\U0001f642", "abbreviations": "Dr. ", "ellipses": "a... ",
    "parentheses": "(", "marks": "\ufeff", "nulls": "\0", "ones": "a one. ",
    "terms": "w1 w2 w3 w4 w5. ", "terms in tags": "<b>w1 w2</b> ",
    "tildes": "~~a~~ ",
}  # fmt: skip


def _po(text: str) -> str:
    return 'msgid ""\nmsgstr ""\n\nmsgid ' + json.dumps("a " + text, ensure_ascii=False) + '\nmsgstr ""\n'


def _csv(text: str) -> str:
    return 'a,b\nx,"b ' + text.replace('"', '""') + '"\n'


WRAP: dict[str, tuple[str, Callable[[str], str]]] = {  # a name: the format, and where the text stands
    "text": ("text", str),
    "html": ("html", lambda text: f"<p>Ab {text} cd</p>"),
    "xhtml": ("xhtml", lambda text: f"<p>Ab {text} cd</p>"),
    "attribute": ("html", lambda text: f'<img alt="Ab {text}">'),
    "markdown": ("markdown", lambda text: "Ab " + text),
    "srt": ("subtitles", lambda text: f"{_CUE}Ab {text}\n"),
    "vtt": ("subtitles", lambda text: f"WEBVTT\n\n{_CUE.replace(',', '.')}Ab {text}\n"),
    "po": ("po", _po),
    "json": ("json", lambda text: json.dumps(["Ab " + text], ensure_ascii=False)),
    "csv": ("csv", _csv),
    "properties": ("properties", lambda text: f"a = Ab {text}"),
    "strings": ("strings", lambda text: '"a" = "Ab ' + text.replace('"', '\\"') + '";'),
    "arb": ("arb", lambda text: json.dumps({"a": "Ab {x} " + text}, ensure_ascii=False)),
    "ass": ("ass", lambda text: f"[Events]\nFormat: Start, Text\nDialogue: 0:01,Ab {text}\n"),
    "xliff": ("xliff", lambda text: f"<xliff><segment><source>Ab {escape(text)}</source></segment></xliff>"),
    "android": ("android", lambda text: f"<resources><string>Ab {escape(text)}</string></resources>"),
}


@dataclass(frozen=True)
class Pattern:
    """A text that grows."""

    name: str
    format: str
    make: Make
    attended: bool = False  # decoded with attention
    terms: int = 0  # of a glossary


def _repeated(wrap: Callable[[str], str], unit: str, size: int) -> str:
    return wrap(unit * (size // len(unit.encode())))


def _halves(head: str, first: str, middle: str, second: str, size: int) -> str:
    count = size // len((first + second).encode())
    return head + first * count + middle + second * count


def _docx(paragraphs: Callable[[int], str], size: int) -> bytes:
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    body = paragraphs(size)
    return _zipped({"word/document.xml": f'<w:document xmlns:w="{space}"><w:body>{body}</w:body></w:document>'})


def _package(member: str, page: str, unit: str, size: int) -> bytes:
    return _zipped({member: "<a/>", page: _ROOT[0] + unit * (size // len(unit)) + _ROOT[1]})


_ODF, _OOXML = "urn:oasis:names:tc:opendocument:xmlns:", "http://schemas.openxmlformats.org/"
_ROOT = (
    f"<root xmlns:text='{_ODF}text:1.0' xmlns:a='{_OOXML}drawingml/2006/main' xmlns='{_OOXML}spreadsheetml/2006/main'>",
    "</root>",
)


def _epub(page: Callable[[int], str], size: int) -> bytes:
    return _zipped({"META-INF/container.xml": "<container/>", "a.xhtml": page(size)})


def _zipped(members: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return out.getvalue()


def _run(text: str, form: str = "") -> str:
    return f"<w:r>{form and f'<w:rPr>{form}</w:rPr>'}<w:t>{text}</w:t></w:r>"


def _times(unit: str, head: str = "", tail: str = "") -> Callable[[int], str]:
    return lambda size: head + unit * (size // len(unit)) + tail


_STRUCTURES: dict[str, tuple[str, Make]] = {
    "closers of nothing": ("html", partial(_halves, "", "<b><i>", "", "</u>")),
    "open inside": ("html", partial(_halves, "Haus <b>", "<i>", "", "</b>")),
    "nested": ("html", partial(_halves, "", "<b>a ", "", "</b>")),
    "deep": ("html", partial(_halves, "Haus ", "<b>", "Tor", "</b>")),
    "crossed": ("html", partial(_halves, "", "<b>a<i>", "c", "</b></i>")),
    "blocks": ("html", partial(_halves, "", "<div>a", "", "</div>")),
    "inline around blocks": ("html", partial(_halves, "<b>", "<p>a", "", "</p>")),
    "names": ("html", lambda size: "".join(f"<{name}>a</{name}>" for name in ("b", "i", "u", "s")) * (size // 32)),
    "fixed": ("html", _times("<code>a</code> b ")),
    "other fixed": ("html", lambda size: " ".join(f"<code>{n}</code> b" for n in range(size // 18))),
    "kept": ("html", _times("<i class=notranslate>ab</i> c ")),
    "images": ("html", _times("a <img src=x> ")),
    "marks in one tag": ("html", _times(" title=ab", "<p", ">")),
    "marks": ("html", _times("<img alt='ab cd'>")),
    "duplicate attributes": ("html", _times(" b=c", "<p", ">ab")),
    "attribute without end": ("html", lambda size: "<a b='" + "c" * size),
    "name without end": ("html", lambda size: "<" + "c" * size),
    "scripts": ("html", _times("<script><!--")),
    "titles": ("html", _times("<title>a")),
    "plain": ("html", _times("<plaintext>a")),
    "foreign": ("html", _times("<svg><![CDATA[")),
    "languages": ("html", _times(" lang=de", "<html", "><p>ab")),
    "long language": ("html", lambda size: "<html lang=de" + "-a" * (size // 2) + "!><p>ab"),
    "long number": ("html", lambda size: "<p>ab &#" + "1" * size + ";"),
    "long zeros": ("html", lambda size: "<p>ab &#" + "0" * size + "65;"),
    "long hexadecimal": ("html", lambda size: "<p>ab &#x" + "f" * size + ";"),
    "cdata": ("xhtml", _times("<![CDATA[a")),
    "closed cdata": ("xhtml", _times("a<![CDATA[a]]>")),
    "elements": ("xhtml", _times("<a/>", "<p>Ab ", "</p>")),
    "nested xml": ("xhtml", partial(_halves, "", "<a>b", "", "</a>")),
    "closed brackets": ("markdown", partial(_halves, "a ", "[", "b", "]")),
    "nested links": ("markdown", partial(_halves, "", "[", "a", "](b)")),
    "nested images": ("markdown", partial(_halves, "", "![", "a", "](b)")),
    "nested emphasis": ("markdown", partial(_halves, "", "*a ", "b", " c*")),
    "long tag": ("markdown", lambda size: "ab <" + "a" * size + ' b=">">'),
    "long reference": ("markdown", lambda size: "[" + "a" * size + "]: b\n"),
    "references": ("markdown", _times("[a][b] ", tail="\n\n[b]: c\n")),
    "open references": ("markdown", _times('[a]: b "\n')),
    "wide table": ("markdown", partial(_halves, "", "a|", "\n", "-|")),
    "table rows": ("markdown", _times("|a\n", "|a|b|c|\n|-|-|-|\n")),
    "front": ("markdown", _times("---  \n")),
    "html block": ("markdown", _times("<div>\na\n")),
    "code": ("markdown", _times("a\n\n    b\n\n")),
    "fences": ("markdown", _times("```\n")),
    "quotes": ("markdown", _times("> a\n")),
    "nested quotes": ("markdown", lambda size: "\n".join(">" * 30 + " a" for _ in range(size // 33))),
    "nested items": ("markdown", lambda size: "\n".join("- " * 15 + "a" for _ in range(size // 32))),
    "deep items": ("markdown", lambda size: "\n".join(" " * (2 * (n % 40)) + "- a" for n in range(size // 44))),
    "autolinks": ("markdown", _times("<http://a> ")),
    "open autolinks": ("markdown", _times("<http://a ")),
    "mixed ticks": ("markdown", lambda size: " ".join("`" * (n % 200) for n in range(size // 100))),
    "cues": ("subtitles", _times(_CUE + "ab\n\n")),
    "packed cues": ("subtitles", _times(_CUE + "ab\n")),
    "long cue": ("subtitles", _times("ab\n", _CUE)),
    "two lines": ("subtitles", lambda size: _CUE + "ab " * (size // 6) + "\n" + "ab " * (size // 6)),
    "many returns": ("subtitles", _times("\r\n", _CUE + "ab")),
    "times of digits": ("subtitles", lambda size: f"{_CUE}ab\n\n2\n" + "0" * size + ":00 --> 1\nab\n"),
    "speech": ("subtitles", _times("- ab\n", _CUE)),
    "spaces between": ("subtitles", _times(" \n", _CUE + "ab\n")),
    "spaces at the end": ("subtitles", lambda size: _CUE + "ab" + " " * size + "x\n"),
    "entries": ("po", lambda size: _po("") + "".join(f'\nmsgid "a {n}"\nmsgstr ""\n' for n in range(size // 28))),
    "plurals": (
        "po",
        lambda size: _po("") + "".join(
            f'\nmsgid "a {n}"\nmsgid_plural "b"\nmsgstr[0] ""\nmsgstr[1] ""\n' for n in range(size // 60)
        ),
    ),
    "long lines": ("po", _times('"a"\n', 'msgid ""\nmsgstr ""\n\nmsgid "a"\n', 'msgstr ""\n')),
    "notes": ("po", _times("# a\n", tail=_po(""))),
    "obsolete": ("po", lambda size: _po("")
        + "".join(f'\n#~ msgid "a {n}"\n#~ msgstr "b"\n' for n in range(size // 30))),
    "wide": ("json", lambda size: json.dumps(["ab"] * (size // 6))),
    "keys": ("json", lambda size: json.dumps({f"k{n}": "ab" for n in range(size // 14)})),
    "deep json": ("json", lambda size: "[" * 900 + '"ab",' * (size // 5) + "1" + "]" * 900),
    "too deep": ("json", lambda size: "[" * size),
    "lines": ("json", _times('{"a": "ab"}\n')),
    "open string": ("json", lambda size: '["' + "a" * size),
    "backslash string": ("json", lambda size: '["ab' + "\\\\" * (size // 2) + '"]'),
    "surrogates": ("json", lambda size: '["ab' + "\\ud83d" * (size // 6) + '"]'),
    "long json number": ("json", lambda size: '["ab", ' + "1" * size + "]"),
    "rows": ("csv", _times("x,a b\n", "a,b\n")),
    "columns": ("csv", lambda size: "b," * (size // 4) + "\n" + "ab," * (size // 6) + "\n"),
    "open cell": ("csv", lambda size: 'a,b\nx,"' + "a" * size),
    "quoted": ("csv", _times('x,"a ""b"""\n', "a,b\n")),
    "paragraphs": ("docx", partial(_docx, _times(f"<w:p>{_run('a')}</w:p>"))),
    "runs": ("docx", partial(_docx, _times(_run("ab ", "<w:b/>") + _run("cd "), "<w:p>", "</w:p>"))),
    "formats": (
        "docx",
        partial(
            _docx,
            lambda size: "<w:p>"
            + "".join(_run("ab ", f'<w:sz w:val="{n}"/>') for n in range(size // 68))
            + "</w:p>",
        ),
    ),
    "breaks": ("docx", partial(_docx, _times("<w:r><w:t>a</w:t><w:br/></w:r>", "<w:p>", "</w:p>"))),
    "fields": (
        "docx",
        partial(_docx, _times('<w:r><w:fldChar w:fldCharType="begin"/></w:r>', f"<w:p>{_run('a')}", "</w:p>")),
    ),
    "nested fields": ("docx", partial(_docx, partial(_halves, "<w:p>" + _run("a"), "<w:ins>", _run("b"), "</w:ins>"))),
    "boxes": (
        "docx",
        partial(
            _docx,
            lambda size: f"<w:p>{_run('a')}"
            + "<w:r><w:pict><w:p><w:r><w:t>a</w:t></w:r>" * min(40, size // 80)
            + "</w:p></w:pict></w:r>" * min(40, size // 80)
            + f"</w:p><w:p>{_run('a' * (size // 2))}</w:p>",
        ),
    ),
    "slides": (
        "pptx",
        partial(_package, "ppt/presentation.xml", "ppt/slides/slide1.xml", "<a:p><a:r><a:t>ab</a:t></a:r></a:p>"),
    ),
    "cells": (
        "xlsx",
        partial(_package, "xl/workbook.xml", "xl/sharedStrings.xml", "<si><t>ab</t></si><si><t>a\nb</t></si>"),
    ),
    "spans": ("odt", partial(_package, "content.xml", "styles.xml", "<text:p>a<text:span>b</text:span></text:p>")),
    "pages": ("epub", partial(_epub, _times("<p>ab</p>"))),
    "page of tags": ("epub", partial(_epub, _times("<b>Ab.</b> ", "<p>", "</p>"))),
}  # fmt: skip


def _request(kind: str, body: Callable[[int], str], size: int) -> bytes:
    """The type of the content of a request, a line end, and its body."""
    return f"{kind}\n{body(size)}".encode(errors="surrogatepass")


def _parts(head: str, text: str) -> Callable[[int], str]:
    part = f"--x\r\nContent-Disposition: form-data; name={head}\r\n\r\n{text}\r\n"
    return lambda size: part * (size // len(part)) + "--x--\r\n"


def _part(head: Callable[[int], str], text: Callable[[int], str]) -> Callable[[int], str]:
    return lambda size: f'--x\r\nContent-Disposition: form-data; name="q"{head(size)}\r\n\r\n{text(size)}\r\n--x--\r\n'


_JSON, _FORM, _MANY = "application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"
_REQUESTS: dict[str, tuple[str, Callable[[int], str]]] = {
    "json text": (_JSON, lambda size: json.dumps({"q": "a" * size})),
    "json texts": (_JSON, lambda size: json.dumps({"q": ["ab"] * (size // 6)})),
    "json fields": (_JSON, lambda size: json.dumps({f"k{n}": "ab" for n in range(size // 14)})),
    "json same field": (_JSON, lambda size: "{" + '"q":1,' * (size // 6) + '"q":1}'),
    "json deep": (_JSON, lambda size: '{"q":' * (size // 5) + "1" + "}" * (size // 5)),
    "json number": (_JSON, lambda size: '{"alternatives": ' + "1" * size + "}"),
    "json digits": (_JSON, lambda size: '{"alternatives": "' + "1" * size + '"}'),
    "json minus": (_JSON, lambda size: '{"alternatives": "' + "-" * size + '"}'),
    "json surrogates": (_JSON, lambda size: '{"q": "' + "\\ud83d" * (size // 6) + '"}'),
    "json spaces": (_JSON, lambda size: " " * size + "{}"),
    "json glossary": (_JSON, lambda size: json.dumps({"glossary": {f"k{n}": "ab" for n in range(size // 14)}})),
    "json long glossary": (_JSON, lambda size: json.dumps({"glossary": {"a " * (size // 2): "b"}})),
    "form text": (_FORM, _times("a", "q=")),
    "form percent": (_FORM, _times("%", "q=")),
    "form escapes": (_FORM, _times("%41", "q=")),
    "form half escapes": (_FORM, _times("%4", "q=")),
    "form bytes": (_FORM, _times("%ff", "q=")),
    "form plus": (_FORM, _times("+", "q=")),
    "form fields": (_FORM, _times("a=b&")),
    "form no fields": (_FORM, _times("&")),
    "form semicolons": (_FORM, _times("a=b;")),
    "form equals": (_FORM, _times("=")),
    "form names": (_FORM, lambda size: "&".join(f"a{n}=b" for n in range(size // 9))),
    "form charset": (_FORM + "; charset=punycode", _times("a", "q-=")),
    "parts": (_MANY, _parts("q", "a")),
    "part": (_MANY, _part(lambda size: "", _times("a"))),
    "part charset": (_MANY + "; charset=punycode", _part(lambda size: "", _times("a"))),
    "part dashes": (_MANY, _part(lambda size: "", _times("\r\n--"))),
    "part boundaries": (_MANY, _part(lambda size: "", _times("\r\n--y"))),
    "part returns": (_MANY, _part(lambda size: "", _times("\r"))),
    "part header": (_MANY, _part(_times("a", "; b="), lambda size: "a")),
    "part quotes": (_MANY, _part(_times('\\"', '; b="', '"'), lambda size: "a")),
    "part parameters": (_MANY, _part(_times("; a=b"), lambda size: "a")),
    "part headers": (_MANY, _part(_times("\r\nA: b"), lambda size: "a")),
    "part file": (_MANY, _part(lambda size: '; filename="a.txt"', _times("ab "))),
    "long boundary": ("multipart/form-data; boundary=" + "x" * 8000, _times("a")),
    "many parameters": ("multipart/form-data" + "; a=b" * 1600, _times("a")),
    "open quote": ('multipart/form-data; boundary="' + '\\"' * 4000, _times("a")),
    "no boundary": ("multipart/form-data", _times("a")),
}  # fmt: skip


def patterns() -> list[Pattern]:
    """All of them."""
    plain = [
        Pattern(f"{place}: {name}", format, partial(_repeated, wrap, unit))
        for place, (format, wrap) in WRAP.items()
        for name, unit in _UNITS.items()
    ]
    built = [Pattern(f"{format}, {name}", format, make) for name, (format, make) in _STRUCTURES.items()]
    attended = [
        Pattern(f"{each.name}, attended", each.format, each.make, attended=True)
        for each in [*plain, *built]
        if each in built or (each.name.startswith("html: ") and "<" in _UNITS[each.name.removeprefix("html: ")])
    ]
    terms = [
        Pattern(f"{each.name}, glossary", each.format, each.make, terms=500)
        for each in plain
        if each.name in ("text: terms", "html: terms", "html: terms in tags", "html: words in tags")
    ]
    requests = [
        Pattern(f"request: {name}", "request", partial(_request, *request)) for name, request in _REQUESTS.items()
    ]
    return plain + built + attended + terms + requests
