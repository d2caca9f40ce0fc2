"""Formats of documents other than text and HTML, the glossary, and files that are refused."""

from __future__ import annotations

import io
import json
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from support.decoders import answer, reverse, run, same

from sharpbeam.decoding.results import Translation
from sharpbeam.documents import document_steps, read_document
from sharpbeam.documents.formats import packages
from sharpbeam.documents.formats.interface import Content
from sharpbeam.errors import InputError, OptionError
from sharpbeam.options.documents import DocumentOptions
from sharpbeam.text import segment
from sharpbeam.text.glossary import read_glossary

_KEPT = "---\na: b c\n---\n\n    code x\n\n```\ny z\n```\n"
_VTT = "WEBVTT\n\nNOTE a b\n\n00:01.0 --> 00:02.0 line:1\n"
_PO = '''msgid ""
msgstr ""

# note
msgid "a %s b"
msgstr "{}"

msgid "done"
msgstr "feito"

msgid "c d"
msgstr "{}"'''

_CUES = "00:01,0 --> 00:02,0\n"
_OLD = '#~ msgid "a b"\n#~ msgstr ""\n\n#, fuzzy\nmsgid "c d"\nmsgstr "by hand"\n\n'


def translated(content: Content, format: str, fields: tuple[str, ...] = ()) -> Content:
    options = DocumentOptions(guards=False)
    return run(document_steps(read_document(content, format, fields), options), reverse).content


@pytest.mark.parametrize(
    ("format", "content", "expected"),
    [
        ("markdown", "# one **two**\n\n- a *b c*\n  d\n", "# **two** one\n\n- d *c b* a\n"),
        ("markdown", "a `x*y` [b c](u)\\\nd\n", "[c b](u) `x*y` a\\\nd\n"),
        ("markdown", "a [b][L]\n\n[l]: u\n", "[b][L] a\n\n[l]: u\n"),
        ("markdown", _KEPT, _KEPT),
        ("markdown", _KEPT.replace("\n", "\r\n"), _KEPT.replace("\n", "\r\n")),
        ("markdown", "\ufeff" + _KEPT.replace("---", "+++"), "\ufeff" + _KEPT.replace("---", "+++")),
        ("markdown", "a b\n\nhttps://x.org/a_(b)?q=~1&r=2 c\n", "b a\n\nc https://x.org/a_(b)?q=~1&r=2\n"),
        ("markdown", "# a b\r\rc d\r", "# b a\r\rd c\r"),
        ("markdown", "a b ![x](y) c\n", "![x](y) c b a\n"),
        ("markdown", "[![A](b)](c) [![D](e)](f)\n", "[![A](b)](c) [![D](e)](f)\n"),
        ("markdown", "| a |\n|-|\n| b \\| `c \\| d` e |\n", "| a |\n|-|\n| e `c \\| d` \\| b |\n"),
        ("markdown", "| a | d |\n|-|-|\n| `b c` | b c |\n| ![b](x) | b c |\n",
         "| a | d |\n|-|-|\n| `b c` | c b |\n| ![b](x) | c b |\n"),
        ("markdown", "a [b](file:///c) ![d](data:image/svg+xml;base64,PA==)\n",
         "[b](file:///c) a ![d](data:image/svg+xml;base64,PA==)\n"),
        ("markdown", "\\* a b\n", "\\* b a\n"),
        ("markdown", "\\> a b\n\n\\## c d\n", "\\> b a\n\n\\## d c\n"),
        ("markdown", "[^1]: a b\n[^x-y]: c d\n  e\n", "[^1]: b a\n[^x-y]: e d c\n"),
        ("markdown", "> [!NOTE]\n> a b\n> c\n\na b[^1]\n", "> [!NOTE]\n> c b a\n\nb[^1] a\n"),
        ("text", "(1) a b c\n- d e\n", "(1) c b a\n- e d\n"),
        ("markdown", "| a b |\n|---|\n| c **d** |\n", "| b a |\n|---|\n| **d** c |\n"),
        ("markdown", "a # - 1.\n", "1\\. - # a\n"),
        ("markdown", "- a [x] [!TIP] [^1] [y]\n", "- \\[y\\] [^1] [!TIP] [x] a\n"),
        ("text", "1\ta b\t c\n", "1\tb a\t c\n"),
        ("subtitles", "1\n00:01,0 --> 00:02,0\na <i>b</i>\nc d\n", "1\n00:01,0 --> 00:02,0\nd c\n<i>b</i> a\n"),
        ("subtitles", "00:01,0 --> 00:02,0\n- a b\n- c d\n", "00:01,0 --> 00:02,0\n- b a\n- d c\n"),
        ("subtitles", "00:01,0 --> 00:02,0\nOne two.\nThree\nfour\n", "00:01,0 --> 00:02,0\ntwo. One\nfour\nThree\n"),
        ("subtitles", "00:01,0 --> 00:02,0\nA b...\nc d\n", "00:01,0 --> 00:02,0\nd c\nb... A\n"),
        ("subtitles", "00:01,0 --> 00:02,0\nI met Mr.\nSmith b\n", "00:01,0 --> 00:02,0\nb Smith\nMr. met I\n"),
        ("subtitles", _VTT + "a b\n", _VTT + "b a\n"),
        ("subtitles", "1\r\n00:01,0 --> 00:02,0\r\na b\r\n", "1\r\n00:01,0 --> 00:02,0\r\nb a\r\n"),
        ("subtitles", _CUES + "a b\n" + _CUES + "c d\n", _CUES + "b a\n" + _CUES + "d c\n"),
        ("subtitles", _CUES + "a b\n2\n" + _CUES + "c d\n", _CUES + "b a\n2\n" + _CUES + "d c\n"),
        ("subtitles", _CUES + "a b\n\nc d\n", _CUES + "b a\n\nd c\n"),
        ("po", _PO.format("", ""), _PO.format("b %s a", "d c")),
        ("po", _PO.format("", "").replace("\n", "\r\n"), _PO.format("b %s a", "d c").replace("\n", "\r\n")),
        ("po", _OLD + 'msgid "a b"\nmsgstr ""\n', _OLD + 'msgid "a b"\nmsgstr "b a"\n'),
        ("json", '{"a":"b\u2028c d"}\n{"a":"e\x85f"}\n', '{"a":"b\u2028d c"}\n{"a":"e\x85f"}\n'),
        ("json", '["\\ud83d a b", "c d", ' + "1" * 5000 + "]", '["\\ud83d a b", "d c", ' + "1" * 5000 + "]"),
        ("json", '{"a b": ["c d", 1, "e {x}\\nf g"]}', '{"a b": ["d c", 1, "{x} e\\ng f"]}'),
        ("xhtml", "<p>a <b>b</b><br/>c d<script/></p>", "<p><b>b</b> a<br/>d c<script/></p>"),
    ],
)  # fmt: skip
def test_text_changes_and_structure_stays(format: str, content: str, expected: str) -> None:
    assert translated(content, format).strip() == expected.strip()


def test_fields_are_chosen() -> None:
    lines = '{"a": "b c", "d": "e f"}\n{"a": "g h"}\n'
    assert translated(lines, "json", ("a",)) == '{"a": "c b", "d": "e f"}\n{"a": "h g"}\n'
    nested = '{"a": ["b c", {"d": "e f"}, "g h"]}'
    assert translated(nested, "json", ("d",)) == '{"a": ["b c", {"d": "f e"}, "g h"]}'
    assert translated(nested, "json", ("a",)) == '{"a": ["c b", {"d": "e f"}, "h g"]}'
    assert translated("x\ty\na b\tc d\n", "csv", ("y",)) == "x\ty\na b\td c\n"
    with pytest.raises(OptionError, match="fields has 'z'; the document has no such key"):
        read_document(lines, "json", ("a", "z"))
    with pytest.raises(OptionError, match="fields has 'z'; the columns are x, y"):
        read_document("x,y\n1,2\n", "csv", ("z",))
    with pytest.raises(OptionError, match=r"fields is empty; name the columns to translate, of x, y .*--fields A,B"):
        read_document("x,y\n1,2\n", "csv")
    with pytest.raises(OptionError, match="left out: html has none"):
        read_document("<p>", "html", ("a",))


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ('x\n"a, b"\n', 'x\n"b a,"\n'),
        ('"a,b";x\n"c";"d e"', '"a,b";x\n"c";"e d"'),
        ('"one, two, three";x\r\n1;a b\r\n\r\n', '"one, two, three";x\r\n1;b a\r\n\r\n'),
        ('x,"y"\n"a ""b""","1\n2"\nc, d', 'x,"y"\n"""b"" a","1\n2"\nc, d'),
    ],
)
def test_cells_that_are_not_translated_stay_byte_for_byte(table: str, expected: str) -> None:
    assert translated(table, "csv", ("x",)) == expected


def test_terms_are_written_as_the_glossary_says(tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("apple pie\tTARTE & X\nAcme\ngood\tbien\tbon\n", encoding="utf-8")
    glossary = read_glossary(tmp_path / "terms.tsv")
    assert glossary.terms == {"apple pie": ("TARTE & X",), "Acme": ("Acme",), "good": ("bien", "bon")}

    def decode(source: str) -> Translation:
        return answer(source, "Le Bon gateau de acme la", [0, 1, 2, 4, 5, 6])

    page = "<p>The Good apple pie of Acme there</p>"
    result = run(document_steps(read_document(page, "html"), DocumentOptions(guards=False), glossary=glossary), decode)
    assert result.content == "<p>Le Bon TARTE &amp; X de acme la</p>"
    (tmp_path / "terms.tsv").write_text("a\t\tc\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"line 1: give a term, a tab and its translation"):
        read_glossary(tmp_path / "terms.tsv")


_CONCEPT = "<termEntry>{}</termEntry>"
_TERMS = '<langSet xml:lang="{}"><tig><term>{}</term></tig><ntig><termGrp><term>{}</term></termGrp></ntig></langSet>'


def test_a_termbase_is_a_glossary_of_two_of_its_languages(tmp_path: Path) -> None:
    path = tmp_path / "terms.tbx"
    two = _TERMS.format("en-US", "cat", "house <hi>cat</hi>") + _TERMS.format("pt", "gato", "gato &amp; Co")
    path.write_text(f'<martif xml:lang="en"><note>x</note>{_CONCEPT.format(two)}</martif>', encoding="utf-8")
    expected = {"cat": ("gato", "gato & Co"), "house cat": ("gato", "gato & Co")}
    assert read_glossary(path).terms == read_glossary(str(path)).terms == expected
    assert read_glossary(path, "en", "pt_BR").terms == expected
    assert sorted(read_glossary(path, "pt", "en").terms) == ["gato", "gato & Co"]
    modern = '<tbx xmlns="urn:iso:std:iso:30042:ed-2"><conceptEntry><langSec xml:lang="de"><term>Haus</term></langSec>'
    modern += '<langSec xml:lang="en"><termSec><term>house</term></termSec></langSec></conceptEntry>'
    path.write_text(modern + "</tbx>", encoding="utf-8")
    assert read_glossary(path).terms == {"Haus": ("house",)}
    with pytest.raises(InputError, match="has the languages de, en; a glossary needs two of them"):
        read_glossary(path, "de", "fr")
    three = modern.replace("</conceptEntry>", '<langSec xml:lang="fr"><term>x</term></langSec></conceptEntry></tbx>')
    path.write_text(three, encoding="utf-8")
    with pytest.raises(InputError, match="has the languages de, en, fr; a glossary needs two"):
        read_glossary(path)
    for hostile in ('<!DOCTYPE a [<!ENTITY b SYSTEM "/etc/passwd">]><tbx>&b;</tbx>', "<tbx>", "\ufeff"):
        path.write_text(hostile, encoding="utf-8")
        with pytest.raises(InputError, match=r"terms\.tbx: (the document type declares|this is not XML)"):
            read_glossary(path)


def archive(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return out.getvalue()


_BODY = b'<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body/></w:document>'
_MISPLACED = archive({"word/document.xml": _BODY})
_MISPLACED = _MISPLACED[:-6] + (int.from_bytes(_MISPLACED[-6:-2], "little") + 9).to_bytes(4, "little") + bytes(2)
_FIELD = b"".join(b'<w:r><w:fldChar w:fldCharType="%s"/></w:r>' % kind for kind in (b"begin", b"separate"))
_FIELDS = b"<w:p><w:r><w:t>a</w:t></w:r>" + _FIELD * 200 + b"</w:p>"
_BOMB = b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    ("format", "content", "message"),
    [
        ("docx", b"", "not a DOCX file"),
        ("docx", _MISPLACED, "cannot be read"),
        ("docx", archive({"word/document.xml": _BODY.replace(b"<w:body/>", _FIELDS)}), "more than 100 fields"),
        ("docx", b"PK\x03\x04 broken", "not a DOCX file"),
        ("docx", archive({"a.xml": b"x"}), "no word/document.xml"),
        ("docx", archive({"word/document.xml": b"<w:p"}), "is not XML"),
        ("docx", archive({"word/document.xml": _BOMB + _BODY}), "document type"),
        ("docx", archive({"word/document.xml": _BODY, "bomb": bytes(65 << 20)}), "65 MiB, 0 of them XML; at most 64"),
        ("epub", archive({"a.xhtml": b"x"}), "no META-INF/container.xml"),
        ("epub", archive({"META-INF/container.xml": b"x", "META-INF/encryption.xml": b"x"}), "is encrypted"),
        (
            "epub",
            archive({"META-INF/container.xml": b"x", "a.xhtml": b"\xff"}),
            "a.xhtml: byte 1 of the document is not valid utf-8",
        ),
        ("po", b"nothing here\n", "not a PO file"),
        ("csv", 'x\n"a', "row 2 of the table has a quote without its other one"),
        ("csv", 'x\n"a"b', "row 2 of the table has a quote"),
        ("html", b'<meta charset="punycode">', "says that it is in 'punycode', which cannot be read"),
        ("html", b'<meta charset="undefined">', "says that it is in 'undefined'"),
        ("html", b"<meta charset=unicode_escape>", "says that it is in 'unicode_escape'"),
        ("text", "one \ud83d", "character 5 of the document is half of a surrogate pair"),
        ("json", b'{"a": ', "not JSON"),
        ("json", b"[" * 100_000, "nested too deeply|not JSON"),
        ("docx", "text", "is given as bytes"),
    ],
)
def test_broken_and_hostile_files_are_refused(format: str, content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_document(content, format, ("x",) if format == "csv" else ())


def test_an_archive_with_too_many_members_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "MOST_MEMBERS", 2)
    with pytest.raises(InputError, match="more than 2 members"):
        read_document(archive({"a": b"", "b": b"", "c": b""}), "epub")


def test_a_member_is_read_up_to_the_size_that_the_list_says() -> None:
    content = bytearray(archive({"META-INF/container.xml": b"x", "a.xhtml": b" " * (60 << 20)}))
    for at in (content.index(b"PK\1\2", content.index(b"PK\1\2") + 1) + 24, content.index(b"PK\3\4", 1) + 22):
        content[at : at + 4] = (900).to_bytes(4, "little")
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"a\.xhtml in the document cannot be read: Bad CRC-32"):
            read_document(bytes(content), "epub")
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_members_are_packed_as_in_documents(method: int) -> None:
    with pytest.raises(InputError, match="packed in a way that a DOCX file is not"):
        read_document(archive({"word/document.xml": _BODY}, method), "docx")


def test_trees_and_segments_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    paragraph = b"<w:p><w:r><w:t>a</w:t></w:r></w:p>"
    document = archive({"word/document.xml": _BODY.replace(b"<w:body/>", paragraph * 20)})
    book = archive({"META-INF/container.xml": b"x", "a.xhtml": b"<p>a" * 10, "b.xhtml": b"<p>a" * 10})
    assert len(read_document(document, "docx").segments) == len(read_document(book, "epub").segments) == 20
    monkeypatch.setattr(segment, "MOST_SEGMENTS", 19)
    texts = {"text": "a\n" * 20, "csv": "x\n" * 21, "po": 'msgid "a"\nmsgstr ""\n' * 20}
    for format, content in {"docx": document, "epub": book, **texts}.items():
        with pytest.raises(InputError, match="more than 19 paragraphs, lines, cells or tags; split it"):
            read_document(content, format, ("x",) if format == "csv" else ())
    monkeypatch.setattr(segment, "MOST_TAGS", 19)
    with pytest.raises(InputError, match="a paragraph of the document has more than 19 tags"):
        read_document("<b>a</b>" * 20, "html")
    monkeypatch.setattr(packages, "MOST_NODES", 50)
    with pytest.raises(InputError, match="more than 50 elements and attributes"):
        read_document(document, "docx")


def test_a_book_says_its_title_and_language() -> None:
    head, tail = "<package xmlns:dc='http://purl.org/dc/elements/1.1/'>", "</package>"
    package = head + "<dc:title id='t'>a &amp; b</dc:title><dc:language>{}</dc:language>" + tail
    book = archive({"META-INF/container.xml": b"x", "a.opf": package.format("de-AT").encode(), "b.xhtml": b"<p>c d"})
    steps = document_steps(read_document(book, "epub"), DocumentOptions(guards=False), "de", target="pt_BR")
    with zipfile.ZipFile(io.BytesIO(run(steps, reverse).content)) as file:
        assert file.read("a.opf").decode() == package.format("pt-BR").replace("a &amp; b", "b &amp; a")
        assert file.read("b.xhtml") == b"<p>d c"


def test_a_bomb_in_a_book_is_no_entity() -> None:
    page = _BOMB + b"<html><p>one &b; two</p></html>"
    book = archive({"META-INF/container.xml": b"x", "a.xhtml": page, "x.png": b"\x00"})
    with zipfile.ZipFile(io.BytesIO(translated(book, "epub"))) as file:
        assert file.namelist() == ["META-INF/container.xml", "a.xhtml", "x.png"]
        assert len(file.read("a.xhtml")) < 2 * len(page)


def test_json_text_is_escaped() -> None:
    def decode(source: str) -> Translation:
        return answer(source, 'a"b\\ \u2028', [0, 0])

    result = run(document_steps(read_document('["x"]', "json"), DocumentOptions(guards=False)), decode)
    assert json.loads(result.content) == ['a"b\\']


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("1\n00:00:01,000 -> 00:00:02,000\none\n", "line 2 is '00:00:01,000 -> 00:00:02,000'"),
        ("1\n00:00:01,000 --> later\none\n", "line 2 is '00:00:01,000 --> later'"),
        ("1\r\n0:01,0 --> 0:02,0\r\none\r\n\r\n2\r\n00:00:61,000 --> 00:01:02,000\r\none\r\n", "line 6 is '00:00:61"),
        (_CUES + "one\n2\n00:00:03 -> 00:00:04\ntwo\n", "line 4 is '00:00:03 ->"),
        ("WEBVTT\n\n00:01.0 --> x\none\n", "line 3 is '00:01.0 --> x'"),
        ("one two\n", "no line has times"),
    ],
)
def test_subtitles_with_wrong_times_are_refused_by_the_line(text: str, line: str) -> None:
    with pytest.raises(InputError, match=line):
        read_document(text, "subtitles")


def test_what_only_looks_like_times_is_kept() -> None:
    for text in ("WEBVTT\n\nNOTE\na --> b\n", "1\n00:01,0 --> 00:02,0\none\n\n12:30\n", "", "\ufeffWEBVTT - one\n"):
        assert run(document_steps(read_document(text, "subtitles"), DocumentOptions()), same).content == text
