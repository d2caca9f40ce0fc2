"""HTML in, HTML out."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Any

import pytest
from support.decoders import Decoder, answer, hostile, reverse, run, same

from sharpbeam import Translator
from sharpbeam.contract import transfer
from sharpbeam.decoding.results import Translation
from sharpbeam.documents import document_steps, read_document, translate_text
from sharpbeam.documents.formats.html_tokens import html_tokens
from sharpbeam.errors import InputError
from sharpbeam.options.documents import DocumentOptions
from sharpbeam.text.sentences import split_sentences


def upper(source: str) -> Translation:
    return answer(source, re.sub(r"\b[a-z]+\b", lambda word: word[0].upper(), source))


def translated(page: str, decode: Decoder = reverse) -> str:
    return run(document_steps(read_document(page, "html"), DocumentOptions()), decode).content


def test_the_language_of_a_page_is_told_by_the_folder(tmp_path) -> None:
    """One direction, which nothing but the name says; a hint counts more."""
    page, translator = '<html lang="de"><p>Hallo.</p></html>', Translator("de-en")
    assert translate_text(translator, page, format="html").content.startswith('<html lang="en">')
    hinted = translate_text(translator, page, format="html", target_language="en-GB")
    assert hinted.content.startswith('<html lang="en-GB">')
    (tmp_path / "model").symlink_to(translator.loaded.folder)
    assert translate_text(Translator(tmp_path / "model"), page, format="html").content.startswith('<html lang="de">')


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<p>one <b>two</b> three</p>", "<p>three <b>two</b> one</p>"),
        ("<p>one <b>two <i>three</i></b> four</p>", "<p>four <b><i>three</i> two</b> one</p>"),
        ("<p><b>one two</b></p>", "<p><b>two one</b></p>"),
        ('<a href="?a=1&amp;b=2">one</a> two', 'two <a href="?a=1&amp;b=2">one</a>'),
        ("one <b>two</b> <i>three</i><sup>4</sup>", "<i>three</i><sup>4</sup> <b>two</b> one"),
        ("one<br>two three", "one<br>three two"),
        ("one <img src=x> two", "<img src=x> two one"),
        ("one<img src=x> two three", "three<img src=x> two one"),
        ("one two <i class=x></i> three", "<i class=x></i> three two one"),
        ("one two <!-- x --> three", "<!-- x --> three two one"),
        ("one <img src=x><img src=y> two", "<img src=x><img src=y> two one"),
        ("see <code>a &lt; b</code> here", "here <code>a &lt; b</code> see"),
        ("  <p>\n one\n two </p>\n", "  <p> two one </p>\n"),
        ("<span><p>one two</p></span>", "<span><p>two one</p></span>"),
        ("one <b>two<p>three</b> four", "one <b>two<p>three</b> four"),
        ("R&amp;D &eacute;t&eacute;", "été R&amp;D"),
        pytest.param("one &#" + "1" * 5000 + ";", "\ufffd one", id="a long number"),
        pytest.param("one &#" + "0" * 5000 + "65; ", "A one ", id="a number with zeros"),
        ("one<!-- note --> two", "<!-- note -->two one"),
    ],
)
def test_inline_markup_follows_its_words(page: str, expected: str) -> None:
    assert translated(page) == expected


def test_a_tag_of_a_word_is_not_around_a_sign() -> None:
    def decode(source: str) -> Translation:
        return answer(source, "Olá , mundo", [0, 1, 0])

    assert translated("<p>Hello <b>world</b></p>", decode) in ("<p>Olá , <b>mundo</b></p>", "<p><b>Olá</b> , mundo</p>")


def test_code_that_is_a_word_too_stays_in_its_place() -> None:
    page = "<p>what a <code>a</code> says of a value</p>"
    assert translated(page, same) == page
    assert translated(page, upper) == "<p>WHAT A <code>a</code> SAYS OF A VALUE</p>"


@pytest.mark.parametrize(
    "page",
    [
        "<script>let a = 'one two';</script>",
        "<style>one two {}</style>",
        "<pre>one two</pre>",
        '<p translate="no">one two</p>',
        "<div class='x notranslate'>one <b>two</b></div>",
        "<textarea>one two</textarea>",
        "<svg><text>one two</text></svg>",
        "<!-- one two",
        "<p title='one two",
        "<p title= 'one two> three",
        "12 3.5 %",
    ],
)
def test_what_is_no_prose_stays(page: str) -> None:
    assert translated(page) == page


@pytest.mark.parametrize(
    ("kept", "rest"),
    [
        ('<p translate="no">a b', "<p>c d"),
        ('<p translate="no">a <i>b', "<div>c d</div>"),
        ('<p translate="no">a b</b> c</p>', "<p>c d"),
        ('<ul><li class="notranslate">a b', "<li>c d</ul>"),
        ('<ul><li class="notranslate">a<ul><li>b<li>c</ul> d', "<li>c d</ul>"),
        ('<ul><li class="notranslate">a b', "</ul><p>c d</p>"),
        ('<table><tr><td translate="no">a<br>b', "<td>c d</table>"),
        ('<div translate="no">a <div>b</div></p> c</div>', "<p>c d"),
    ],
)
def test_what_stays_ends_where_browsers_end_it(kept: str, rest: str) -> None:
    assert translated(kept + rest) == kept + rest.replace("c d", "d c")


@pytest.mark.parametrize(
    "page",
    [
        "<!--<img src=x onerror=alert(1)> one two",
        "<script><!--<script></script>alert(1)--></script> one two",
        '<noscript><p title="</noscript><img src=x onerror=alert(1)>"> one',
        "<title><b title='</title><script>alert(1)</script>'>one two</title>",
        "<svg><![CDATA[</svg><b title=']]>one'>two <img src=x onerror=alert(1)>",
        "one <a href='javascript:alert(1) two",
    ],
)
@pytest.mark.parametrize("decode", [reverse, hostile])
def test_nothing_new_would_run(page: str, decode: Decoder) -> None:
    parser = pytest.importorskip("fuzz.html_documents", reason="selectolax is not installed")
    assert parser.executable(translated(page, decode)) <= parser.executable(page)


def test_text_of_a_translation_is_never_markup() -> None:
    out = translated("<p>Anything</p>", hostile)
    assert [token.raw for token in html_tokens(out) if token.kind != "text"] == ["<p>", "</p>"]


def test_bytes_are_read_in_the_encoding_that_the_page_names() -> None:
    page = '<meta charset="iso-8859-1"><p>\u00e9t\u00e9 one</p>'.encode("latin-1")
    out = run(document_steps(read_document(page, "html"), DocumentOptions()), reverse).content
    assert out == '<meta charset="iso-8859-1"><p>one \u00e9t\u00e9</p>'.encode("latin-1")
    page = '<meta charset="latin1"><p>\u201eone\u201c two</p>'.encode("cp1252")  # as browsers read it
    out = run(document_steps(read_document(page, "html"), DocumentOptions()), reverse).content
    assert out == '<meta charset="latin1"><p>two \u201eone\u201c</p>'.encode("cp1252")
    with pytest.raises(InputError, match="byte 4 of the document is not valid utf-8"):
        read_document(b"one\xff", "html")


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<img alt="one two" src="a b">', '<img alt="two one" src="a b">'),
        ("<p title='one two' class='c d'>three four", "<p title='two one' class='c d'>four three"),
        ("one <b title=x>two</b> three", "three <b title=x>two</b> one"),
        ("<input placeholder=one aria-label='two  three'>", "<input placeholder=one aria-label='three two'>"),
        ('<a ALT = "one &amp; two" href=x>three</a> four', 'four <a ALT = "two &amp; one" href=x>three</a>'),
        ('<i title="one two" title="three four">five</i>', '<i title="two one" title="three four">five</i>'),
        (
            '<textarea placeholder="one two">three four</textarea>',
            '<textarea placeholder="two one">three four</textarea>',
        ),
        ('<p translate=no title="one two">three', '<p translate=no title="one two">three'),
        ('<div class=notranslate><img alt="one two"></div>', '<div class=notranslate><img alt="one two"></div>'),
        ('<link title="one two" href=x>', '<link title="one two" href=x>'),
        ('<p title="12 %" value="one two">', '<p title="12 %" value="one two">'),
        ('<p title="one two">\0</p>', '<p title="two one">\0</p>'),
    ],
)
def test_attributes_that_people_read_are_translated(page: str, expected: str) -> None:
    assert translated(page) == expected
    assert translated(page, same).replace("two  three", "") == page.replace("two  three", "")


@pytest.mark.parametrize("quote", ['"', "'", ""])
@pytest.mark.parametrize("name", ["alt", "title", "placeholder", "aria-label"])
def test_a_translated_attribute_stays_in_its_quotes(name: str, quote: str) -> None:
    (before,) = html_tokens(f"<img src=x {name}={quote}one{quote} id=y>")
    for message in ('"><script>alert(1)</script>', "' onload='go()", "x onload=go()", "\0000\0", "`&quot;>"):

        def decode(text: str, message: str = message) -> Any:
            return replace(same(text), hypotheses=(replace(same(text).hypotheses[0], text=message),))

        (after,) = html_tokens(translated(before.raw, decode))
        assert [each.name for each in after.attributes] == [each.name for each in before.attributes]
        assert after.attribute(name) == message and after.attribute("id") == "y"


@pytest.mark.parametrize(
    "page",
    [
        "<" * 50_000,
        "<b>" * 20_000 + "one",
        "<a b" * 20_000,
        "one <i></i>" * 2_000,
        "<!--" * 20_000,
        "<p translate=no>" + "<b>" * 20_000 + "</i>" * 20_000,
    ],
)
def test_odd_pages_take_no_long_time(page: str) -> None:
    since = time.process_time()
    translated(page, same)
    assert time.process_time() - since < 10


@pytest.mark.parametrize(
    ("page", "source", "target", "expected"),
    [
        ('<html lang="de-AT"><p>one', "de", "en", '<html lang="en"><p>one'),
        ("<HTML class=x lang=de><p>one", "", "pt_BR", "<HTML class=x lang=pt-BR><p>one"),
        ("<html xml:lang='de' lang='de'><p>one", "de_DE", "fr", "<html xml:lang='fr' lang='fr'><p>one"),
        ('<html lang="fr"><p lang="de">one', "de", "en", '<html lang="fr"><p lang="de">one'),
        ('<html lang="de"><p>one', "de", "", '<html lang="de"><p>one'),
        ('<html lang="de"><p>one', "de", 'x" onload="', '<html lang="de"><p>one'),
    ],
)
def test_the_page_says_the_language_of_the_translation(page: str, source: str, target: str, expected: str) -> None:
    for content, reference in ((page, expected), (page.encode(), expected.encode())):
        steps = document_steps(read_document(content, "html"), DocumentOptions(), source, target=target)
        assert run(steps, same).content == reference


def test_markup_of_a_long_text_is_moved_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = pytest.importorskip("fuzz.html_documents", reason="selectolax is not installed")
    monkeypatch.setattr(transfer, "MOST_CELLS", 0)
    assert translated("<p>one <b>two</b> three <code>x y</code></p>", same) == (
        "<p>one <b>two</b> three <code>x y</code></p>"
    )
    parser.check_all(60, seed=3)


def test_long_text_is_split_as_short_text_is() -> None:
    text = "Dr. Smith came. He slept! " * 1000
    ranges = split_sentences(text, "en")
    assert [text[start:end] for start, end in ranges] == ["Dr. Smith came.", "He slept!"] * 1000
