"""XLIFF, and the files in which programs keep their texts."""

from __future__ import annotations

import pytest
from support.decoders import reverse, run

from sharpbeam.documents import document_steps, read_document
from sharpbeam.errors import InputError
from sharpbeam.options.documents import DocumentOptions


def translated(content: str | bytes, format: str, target: str = "") -> str | bytes:
    steps = document_steps(read_document(content, format), DocumentOptions(guards=False), "en", target=target)
    return run(steps, reverse).content


_UNIT = '<xliff version="1.2"><file source-language="en"><body><trans-unit id="1">{}</trans-unit></body></file></xliff>'
_NEW = '<target state="translated" state-qualifier="mt-suggestion">{}</target>'
_SEG = '<mrk mtype="seg" mid="1">{}</mrk> <mrk mtype="seg" mid="2">{}</mrk>'


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("a b", "b a"),
        ('a <g id="1">b &amp; c</g>', '<g id="1">c &amp; b</g> a'),
        ('a <x id="1"/> b', '<x id="1"/> b a'),
        ('<bpt id="1">[</bpt>a b<ept id="1">]</ept> c', 'c <bpt id="1">[</bpt>b a<ept id="1">]</ept>'),
        ('a <mrk mtype="protected">b c</mrk> d', 'd <mrk mtype="protected">b c</mrk> a'),
        ("<![CDATA[a <b>b</b>]]>", "<![CDATA[<b>b</b> a]]>"),
        ("a b\nc %1$s", "b a\n%1$s c"),
    ],
)
def test_a_unit_of_xliff_has_a_target_with_the_markup_of_its_source(source: str, target: str) -> None:
    xml = f"<source>{source}</source>"
    assert translated(_UNIT.format(xml), "xliff") == _UNIT.format(xml + _NEW.format(target))
    empty = xml + '<target xml:lang="pt" state="new"/>'
    new = xml + f'<target xml:lang="pt" state="translated" state-qualifier="mt-suggestion">{target}</target>'
    assert translated(_UNIT.format(empty), "xliff") == _UNIT.format(new)
    for kept in (xml + '<target state="final">By hand</target>', f"<x>{xml}</x>"):
        assert translated(_UNIT.format(kept), "xliff") == _UNIT.format(kept)
    kept = _UNIT.replace("<body>", '<body><group translate="no">').replace("</body>", "</group></body>").format(xml)
    assert translated(kept, "xliff") == kept


def test_sentences_that_xliff_marks_are_texts_of_their_own() -> None:
    xml = f"<source>a b. c d.</source><seg-source>{_SEG.format('a b.', 'c d.')}</seg-source>"
    new = _NEW.format(_SEG.format("b. a", "d. c"))
    assert translated(_UNIT.format(xml), "xliff") == _UNIT.format(xml + new)


def test_xliff_says_its_target_language() -> None:
    assert 'target-language="pt-BR"' in str(translated(_UNIT.format(""), "xliff", target="pt_BR"))
    for own in ("pt-PT", "pt"):
        page = _UNIT.format("").replace(' source-language="en"', f" target-language='{own}' source-language='en'")
        assert translated(page, "xliff", target="pt_BR") == page
    page = (
        '<x:xliff xmlns:x="urn:oasis:names:tc:xliff:document:2.0" srcLang="en" trgLang="de"><x:file><x:unit>\n'
        '<x:segment>\n <x:source>a <x:pc id="1">b c</x:pc> <x:sc id="2"/>d<x:ec startRef="2"/></x:source></x:segment>'
        "</x:unit></x:file></x:xliff>"
    )
    new = '\n <x:target><x:sc id="2"/>d<x:ec startRef="2"/> <x:pc id="1">c b</x:pc> a</x:target></x:segment>'
    expected = page.replace('"de"', '"pt-BR"').replace("<x:segment>", '<x:segment state="translated">')
    assert translated(page, "xliff", target="pt_BR") == expected.replace("</x:segment>", new)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"it\'s a \"b\"", r"\"b\" a it\'s"),
        (r"a\nb c", r"a\nc b"),
        (r"a\u00e9 b", "b aé"),
        (r"\u0020a b\u0020c\u0020", r"\u0020c b a\u0020"),
        (r"a \ud83d\ude00b", "😀b a"),
        ('"  a  b "', '"  b a "'),
        ("a <b>b  c</b>", "<b>c b</b> a"),
        ("a &app; b", "b &app; a"),
        ("<![CDATA[a <b>b</b> c's]]>", r"<![CDATA[c\'s <b>b</b> a]]>"),
        ("a <xliff:g id='n'>%1$s x</xliff:g> b", "b <xliff:g id='n'>%1$s x</xliff:g> a"),
        ("b @a", r"\@a b"),
        ("@string/a", "@string/a"),
        ("?attr/a", "?attr/a"),
        ("", ""),
    ],
)
def test_strings_of_android_have_its_escapes(text: str, expected: str) -> None:
    page = (
        '<!DOCTYPE resources [<!ENTITY app "App">]>'
        "<resources xmlns:xliff='urn:oasis:names:tc:xliff:document:1.2'><!-- c d -->\n"
        "<string name='a'>{0}</string><plurals name='b'><item quantity='other'>{0}</item></plurals>"
        "<string-array name='c'><item>{0}</item></string-array><string translatable='false'>c d</string>"
        "<style name='d'><item name='e'>c d</item></style></resources>\n"
    )
    assert translated(page.format(text), "android") == page.format(expected)


_ARMS = "{{n, plural, offset:1 =0{{{}}} one{{{}}} other{{{}}}}}"
_ASS = "[Events]\nFormat: Start, Text\nComment: 1,a b\nDialogue: 0:01,{}\n"


@pytest.mark.parametrize(
    ("format", "content", "expected"),
    [
        ("properties", "# a = b c\n!x y\na = b c\n", "# a = b c\n!x y\na = c b\n"),
        ("properties", "  a\\ b: c d\\\n    e\r\nf g", "  a\\ b: de c\r\nf g"),
        ("properties", "a b\\u00e9 c\\n d\n", "a c b\\u00e9\\n d\n"),
        ("properties", b"a=b \xe9\n", b"a=\xe9 b\n"),
        ("properties", "a=b é\\u65e5 c", "a=c é\\u65e5 b"),
        ("properties", "a=b 日\\u65e5 c", "a=c 日日 b"),
        ("properties", "a={0} it''s b", "a=b it''s {0}"),
        ("properties", "a=it's b", "a=b it's"),
        ("strings", '/* "a" = "b c"; */"a" = "b %@ c"; // "d e"', '/* "a" = "b c"; */"a" = "c %@ b"; // "d e"'),
        ("strings", 'a.b="c \\"d\\"\\n e f" ; "g";', 'a.b="\\"d\\" c\\n f e" ; "g";'),
        ("strings", 'a="b c\nd e";', 'a="c b\ne d";'),
        ("strings", '"a"="b \\U00e9";'.encode("utf-16"), '"a"="é b";'.encode("utf-16")),
        ("arb", '{"@a": {"b": "c d"}, "@@x": "y z", "a": "b c"}', '{"@a": {"b": "c d"}, "@@x": "y z", "a": "c b"}'),
        ("arb", '{"a": "b {c} d"}', '{"a": "d {c} b"}'),
        ("arb", '{"a": "5% d %d b"}', '{"a": "b %d d 5%"}'),
        ("json", f'["{_ARMS.format("a b", "# a", "{c} d")}"]', f'["{_ARMS.format("b a", "a #", "d {c}")}"]'),
        ("json", '["{a, select, b{c {d, number} e} other{}} f g"]', '["{a, select, b{e {d, number} c} other{}} g f"]'),
        ("json", "[\"it''s '{' a {c}\"]", "[\"{c} a '{' it''s\"]"),
        ("json", "[\"it's {a}\"]", "[\"{a} it's\"]"),
        ("ass", _ASS.format("{\\an8}a b, c\\Nd"), _ASS.format("{\\an8}d c\\Nb, a")),
        ("ass", _ASS.format("a {\\i1}b c{\\i0} d"), _ASS.format("d {\\i1}c b{\\i0} a")),
        ("ass", _ASS.format("a {\\i1}b c\\Nd e"), _ASS.format("a {\\i1}c b\\Ne d")),
        ("ass", _ASS.format("- a b\\N- c d"), _ASS.format("- b a\\N- d c")),
        ("ass", _ASS.format("{\\p1}m 0 0 l 9 9{\\p0}"), _ASS.format("{\\p1}m 0 0 l 9 9{\\p0}")),
    ],
)  # fmt: skip
def test_values_are_translated_in_their_escapes(format: str, content: str | bytes, expected: str | bytes) -> None:
    assert translated(content, format) == expected


def test_arb_says_its_locale() -> None:
    assert translated('{"@@locale": "en", "a": "en"}', "arb", target="pt-BR") == '{"@@locale": "pt_BR", "a": "en"}'


@pytest.mark.parametrize(
    ("format", "content", "message"),
    [
        ("xliff", "<resources/>", "has <resources> where this format has <xliff>"),
        ("android", b"<a>b c</a>", "has <a> where this format has <resources>"),
        ("android", "<resources><string>a", "is not XML that can be read: no element found"),
        ("xliff", '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><xliff>&b;</xliff>', "b, which is a file"),
        ("android", '<!DOCTYPE a [<!ENTITY % b "c">]><resources/>', "b, which is a file, has entities"),
        ("android", '<!DOCTYPE a [<!ENTITY b "c"><!ENTITY d "&b;&b;">]><resources/>', "d, which is a file, has"),
        ("xliff", "<xliff>&nbsp;</xliff>", "undefined entity"),
        ("xliff", "<xliff>" + "<a>" * 250, "more than 250 elements in each other"),
        ("strings", '"a" = "b";\n"c" = "d', "line 2 is"),
        ("strings", '/* "a" = "b";', "line 1 is"),
        ("ass", "one two", "these are no ASS subtitles"),
        ("ass", "[Events]\nFormat: Start, End, Text\nDialogue: a", "has fewer fields than its format says"),
        ("android", b'<?xml version="1.0" encoding="utf-7"?><resources/>', "says that it is in 'utf-7'"),
    ],
)
def test_hostile_files_are_refused(format: str, content: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_document(content, format)
