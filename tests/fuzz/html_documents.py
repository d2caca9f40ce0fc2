"""Random HTML, sound and broken, through document translation.

For each fragment and decoder: no exception; every tag of the input is in the output, once, byte for byte but for the
values of attributes that are translated; sound nesting stays sound; text decodes to what the decoder said; and, by the
parser of another project, no script, event handler or script link is there that the input did not have.
"""

from __future__ import annotations

import random
from collections import Counter

from selectolax.lexbor import LexborHTMLParser
from support.decoders import Decoder, hostile, reverse, run, same

from sharpbeam.documents import document_steps
from sharpbeam.documents.formats.html import READ, VOID, HtmlDocument
from sharpbeam.documents.formats.html_tokens import Token, html_tokens
from sharpbeam.options.documents import DocumentOptions

DECODERS: tuple[Decoder, ...] = (same, reverse, hostile)
_NAMES = (
    "b i a span em strong p div li td h1 code pre script style textarea title sup font svg math template".split()  # noqa: SIM905
)
_SOUND = "The quick brown fox. Jumps over; a lazy dog! 12 3.5 été".split()  # noqa: SIM905
_WORDS = [*_SOUND, "日本語。", "&amp;", "&lt;b&gt;", "&nbsp;", "&#39;", "&bogus;", "<", ">", "a<b"]
_ODD = (
    "<br>", "<img src=x onerror=alert(1)>", "<!-- note -->", "<!doctype html>", "<?php echo 1 ?>", "<![CDATA[x]]>",
    "</b>", "</nothing>", "<a href='x", "<b", "<", "</", "<!--", "\x00", "\r\n", "&#0;", "&#xD800;", "\u2028", "<p/>",
    "<span translate=no>Keep it</span>", "<i class='notranslate x'>Keep</i>", "<a title='<b>'>", '<a href="j&quot;">',
    "<script>let a = '</b>';</script>", "<style>b{}</style>", "<noscript><b>x</noscript>", "<math><mtext><b>y</math>",
    "<a b=c d>", "<img alt=One src=x>", "<input placeholder='two \"x' aria-label=\"three's\">",
    "<p alt='<script>a()</script>'>",
)  # fmt: skip


def fragment(draw: random.Random, depth: int = 0, broken: float = 0.3) -> str:
    """A random fragment; `broken` is the share of odd pieces in it."""
    parts = []
    for _ in range(draw.randint(1, 6)):
        kind = draw.random()
        if kind < broken * 0.6:
            parts.append(draw.choice(_ODD))
        elif kind < 0.5 or depth > 3:
            words = " ".join(draw.choices(_WORDS if broken else _SOUND, k=draw.randint(1, 7)))
            parts.append(draw.choice((" ", "", "\n ")) + words if broken else f" {words} ")
        else:
            name = draw.choice(_NAMES)
            attributes = draw.choice(("", "", ' class="a b"', " id=x", " onclick='go()'", ' title="a &amp; b"'))
            closed = f"</{name}>" if draw.random() > broken * 0.5 else ""
            parts.append(f"<{name}{attributes}>{fragment(draw, depth + 1, broken)}{closed}")
    return "".join(parts)


def in_order(content: str) -> list[str]:
    """Everything that is not text."""
    return [_without_read(token) for token in html_tokens(content) if token.kind != "text"]


def _without_read(token: Token) -> str:
    """A tag without the values of attributes that are translated."""
    raw = token.raw
    for each in reversed(token.attributes):
        if each.name in READ:
            raw = raw[: each.start] + raw[each.end :]
    return raw


def markup(content: str) -> Counter[str]:
    """Everything that is not text, and how often."""
    return Counter(in_order(content))


def nested(content: str) -> bool:
    """Whether every tag is closed in order."""
    stack: list[str] = []
    for token in html_tokens(content):
        if token.kind == "open" and token.name not in VOID:
            stack.append(token.name)
        elif token.kind == "close" and (not stack or stack.pop() != token.name):
            return False
    return not stack


def executable(content: str) -> set[str]:
    """Scripts, event handlers and script links, as a browser's parser sees them."""
    result: set[str] = set()
    for node in LexborHTMLParser(content).css("*"):
        if node.tag == "script":
            result.add(node.html or "")
        for name, value in node.attributes.items():
            if name.startswith("on") or (value or "").strip().lower().startswith("javascript:"):
                result.add(f"{node.tag} {name}={value}")
    return result


def check(content: str, decode: Decoder, sound: bool = False) -> None:
    """Raise AssertionError where the translation of `content` breaks an invariant."""
    out = run(document_steps(HtmlDocument(content), DocumentOptions()), decode).content
    assert not markup(content) - markup(out), "a tag is lost"
    assert not markup(out) - markup(content), "a tag was added"
    assert nested(out) or not nested(content), "the nesting is broken"
    assert not executable(out) - executable(content), "something new would run"
    if decode is same and sound:
        assert in_order(content) == in_order(out), "the order of tags changed"


def check_all(count: int, seed: int = 1) -> None:
    """Check so many fragments with each decoder; raises AssertionError."""
    for number in range(count):
        draw = random.Random(f"{seed}-{number}")
        broken = draw.choice((0.0, 0.3, 0.8))
        content = fragment(draw, broken=broken)
        for decode in DECODERS:
            try:
                check(content, decode, sound=not broken)
            except Exception as error:
                raise AssertionError(f"fragment {number}, decoder {decode.__name__}: {error!r}\n{content!r}") from error
