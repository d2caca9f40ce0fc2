"""Documents that are archives of XML: what is translated in them, what stays, and what is refused."""

from __future__ import annotations

import io
import zipfile

import pytest
from support.decoders import reverse, run

from sharpbeam.documents import document_steps, read_document
from sharpbeam.errors import InputError
from sharpbeam.options.documents import DocumentOptions

_OOXML = "http://schemas.openxmlformats.org/{}/2006/main"
_ROOTS = {
    "docx": ("word/document.xml", f'<w:document xmlns:w="{_OOXML.format("wordprocessingml")}">', "</w:document>"),
    "pptx": ("ppt/slides/slide1.xml", f'<p xmlns:a="{_OOXML.format("drawingml")}">', "</p>"),
    "xlsx": ("xl/sharedStrings.xml", f'<x:sst xmlns:x="{_OOXML.format("spreadsheetml")}">', "</x:sst>"),
    "odt": ("content.xml", '<o xmlns:t="urn:oasis:names:tc:opendocument:xmlns:text:1.0">', "</o>"),
}
_NEEDED = {"pptx": "ppt/presentation.xml", "xlsx": "xl/workbook.xml"}


def package(format: str, body: str, **members: str) -> bytes:
    name, head, tail = _ROOTS[format]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        if format in _NEEDED:
            file.writestr(_NEEDED[format], "<a/>")
        file.writestr(name, head + body + tail)
        for each, content in members.items():
            file.writestr(each.replace("__", "/"), content)
    return out.getvalue()


def translated(format: str, body: str, **members: str) -> str:
    content = package(format, body, **members)
    steps = document_steps(read_document(content, format), DocumentOptions(guards=False), "en", target="pt-BR")
    name, head, tail = _ROOTS[format]
    with zipfile.ZipFile(io.BytesIO(run(steps, reverse).content)) as file:
        page = file.read(name).decode()
    assert page.startswith(head) and page.endswith(tail)
    return page[len(head) : len(page) - len(tail)]


def _run(text: str, form: str = "") -> str:
    return f"<w:r>{form and f'<w:rPr>{form}</w:rPr>'}<w:t>{text}</w:t></w:r>"


_FIELD = "".join(
    f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>{_run("x y") if kind != "end" else ""}'
    for kind in ("begin", "separate", "end")
)
_BEGINS = '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:fldChar w:fldCharType="separate"/></w:r>'
_SPACED = '<w:t xml:space="preserve">'
_BOX = "<w:r><w:pict><w:p>{}</w:p></w:pict></w:r>"


@pytest.mark.parametrize(
    ("format", "body", "expected"),
    [
        ("docx", f"<w:p><w:pPr/>{_run('one two')}</w:p>", f"<w:p><w:pPr/>{_run('two one')}</w:p>"),
        (
            "docx",
            f"<w:p>{_run('one two ')}{_FIELD}{_run(' three')}</w:p>",
            f"<w:p><w:r>{_SPACED}three </w:t></w:r>{_FIELD}<w:r>{_SPACED} two one</w:t></w:r></w:p>",
        ),
        (
            "docx",
            f"<w:p>{_BEGINS}{_run('a b')}</w:p><w:p>{_run('c d')}</w:p>",
            f"<w:p>{_BEGINS}{_run('b a')}</w:p><w:p>{_run('d c')}</w:p>",
        ),
        (
            "docx",
            f"<w:p><w:sdt><w:sdtPr/><w:sdtContent>{_run('a b')}</w:sdtContent></w:sdt></w:p>",
            f"<w:p><w:sdt><w:sdtPr/><w:sdtContent>{_run('b a')}</w:sdtContent></w:sdt></w:p>",
        ),
        (
            "docx",
            f"<w:p>{_run('a b')}{_BOX.format(_run('c d'))}</w:p>",
            f"<w:p>{_run('b a')}{_BOX.format(_run('d c'))}</w:p>",
        ),
        (
            "docx",
            f"<w:p>{_run('one two ')}<w:r><w:drawing/></w:r>{_run(' three')}</w:p>",
            f"<w:p><w:r><w:drawing/></w:r><w:r>{_SPACED} three two one</w:t></w:r></w:p>",
        ),
        ("docx", f"<w:p>{_run('a')}{_run(' b')}</w:p>", f"<w:p>{_run('b a')}</w:p>"),
        (
            "docx",
            "<w:p><w:r><w:t>a b</w:t><w:tab/><w:t>c d</w:t></w:r></w:p>",
            f"<w:p>{_run('b a')}<w:r><w:tab/></w:r>{_run('d c')}</w:p>",
        ),
        ("docx", f"<w:p><w:del>{_run('a b')}</w:del></w:p>", f"<w:p><w:del>{_run('a b')}</w:del></w:p>"),
        (
            "docx",
            f'<w:p>{_run("a b", """<w:lang w:val="en-US"/>""")}</w:p>',
            f'<w:p>{_run("b a", """<w:lang w:val="pt-BR"/>""")}</w:p>',
        ),
        ("pptx", "<a:p><a:r><a:t>a &#98;</a:t></a:r></a:p>", "<a:p><a:r><a:t>b a</a:t></a:r></a:p>"),
        (
            "pptx",
            '<a:p><a:r><a:t>a b </a:t></a:r><a:r><a:rPr b="1"/><a:t>c</a:t></a:r><a:endParaRPr/></a:p>',
            '<a:p><a:r><a:rPr b="1"/><a:t>c</a:t></a:r><a:r><a:t> b a</a:t></a:r><a:endParaRPr/></a:p>',
        ),
        (
            "xlsx",
            '<x:si><x:t>a b</x:t><x:rPh sb="0" eb="1"><x:t>A</x:t></x:rPh><x:phoneticPr fontId="1"/></x:si>',
            '<x:si><x:t>b a</x:t><x:phoneticPr fontId="1"/></x:si>',
        ),
        ("xlsx", "<x:si><x:t>a b\nc d</x:t></x:si>", "<x:si><x:t>b a\nd c</x:t></x:si>"),
        ("xlsx", "<x:si><x:t>12.5</x:t></x:si><x:si/>", "<x:si><x:t>12.5</x:t></x:si><x:si/>"),
        ("odt", "<t:p>a <t:span>b</t:span>\n  c</t:p>", "<t:p>c <t:span>b</t:span> a</t:p>"),
        ("odt", "<t:h>a b<t:note><t:p>c d</t:p></t:note></t:h>", "<t:h>b a<t:note><t:p>d c</t:p></t:note></t:h>"),
        ("odt", "<t:p>a<t:s/>b <t:s/>c</t:p>", "<t:p><t:s/>c b a</t:p>"),
        ("odt", "<t:p>a b<t:tab/>c d</t:p>", "<t:p>b a<t:tab/>d c</t:p>"),
    ],
)
def test_words_move_with_their_formats(format: str, body: str, expected: str) -> None:
    assert translated(format, body) == expected


def test_the_headers_of_a_table_of_excel_stay_as_the_table_names_them() -> None:
    columns = '<tableColumn name="a b"/><tableColumn name="d_x000a_e f"/>'
    table = f'<table xmlns="{_OOXML.format("spreadsheetml")}">{columns}</table>'
    cells = "<x:si><x:t>a b</x:t></x:si><x:si><x:t>a c</x:t></x:si><x:si><x:t>d\ne f</x:t></x:si>"
    assert translated("xlsx", cells, **{"xl/tables/table1.xml": table}) == cells.replace("a c", "c a")


@pytest.mark.parametrize("name", ["xl/comments1.xml", "xl/comments/comment1.xml"])
def test_comments_of_excel_are_translated(name: str) -> None:
    note = (
        f'<s:comment xmlns:s="{_OOXML.format("spreadsheetml")}"><s:text><s:r><s:t>c d</s:t></s:r></s:text></s:comment>'
    )
    document = read_document(package("xlsx", "<x:si><x:t>a b</x:t></x:si>", **{name: note}), "xlsx")
    assert {segment.text for segment in document.segments} == {"a b", "c d"}


@pytest.mark.parametrize("format", sorted(_ROOTS))
def test_entities_paths_and_depth_are_refused(format: str) -> None:
    name, head, tail = _ROOTS[format]

    def refused(page: str, message: str, **members: str) -> None:
        out = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(package(format, "", **members))) as old, zipfile.ZipFile(out, "w") as new:
            for each in old.namelist():
                new.writestr(each, page if each == name else old.read(each))
        with pytest.raises(InputError, match=message):
            read_document(out.getvalue(), format)

    refused(f'<!DOCTYPE a [<!ENTITY b SYSTEM "/etc/passwd">]>{head}&b;{tail}', "entity b, which is a file")
    refused(f'<!DOCTYPE a [<!ENTITY b "cc"><!ENTITY d "&b;&b;">]>{head}&d;{tail}', "entity d, which is a file, has")
    refused(head + "<a>" * 300 + "</a>" * 300 + tail, "more than 250 elements in each other")
    refused(head + "<a></b>" + tail, "is not XML that can be read: mismatched tag")
    for path in ("../a.xml", "/etc/passwd", "a/../../b", "C:/a", "a\\..\\..\\b"):
        refused(head + tail, "which is outside of it", **{path: "x"})
