"""Random office documents: written and read by python-pptx, openpyxl and odfpy, with odd but legal XML in them."""

from __future__ import annotations

import io
import random
import re
import zipfile
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import openpyxl
import pptx
import xlsxwriter
from odf import text as odt
from odf.opendocument import OpenDocumentText, load
from odf.style import Style, TextProperties
from odf.table import Table, TableCell, TableRow
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont
from openpyxl.comments import Comment
from openpyxl.worksheet.table import Table as NamedTable

Say = Callable[[random.Random, int], str]
_PAGES = re.compile(
    r"(?:content|styles|ppt/slides/slide\d+|ppt/notesSlides/\w+|xl/sharedStrings|xl/(?:worksheets|drawings|comments)/\w+)"
    r"\.xml"
)
_BLOCKS = re.compile(r"<(a:p|si|is|text)(?=[\s>])[^<>]*(?<!/)>.*?</\1>", re.S)


def odd(draw: random.Random, content: bytes) -> bytes:
    """The archive with its XML written in other ways: letters as references, UTF-16, white space and comments."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        for member in old.infolist():
            page = old.read(member)
            if _PAGES.fullmatch(member.filename):
                page = _odd_page(draw, page.decode())
            new.writestr(member, page)
    return out.getvalue()


def _odd_page(draw: random.Random, page: str) -> bytes:
    if draw.random() < 0.5:
        page = re.sub(r">[^<]+<", lambda text: text[0].replace("e", draw.choice(("e", "&#101;", "&#x65;"))), page)
    if draw.random() < 0.5:
        page = re.sub(r"(?<=\w)/>", lambda end: draw.choice(("/>", " />", "\n/>")), page)
    if draw.random() < 0.5:
        page += "<!-- the end & <more> -->\n<?odd it?>"
    head = re.match(r"<\?xml[^>]*\?>\s*", page)
    body = page[head.end() :] if head else page
    if draw.random() < 0.2 and "opendocument" not in page:  # odfpy reads UTF-8 alone
        return ('<?xml version="1.0" encoding="UTF-16"?>' + body).encode("utf-16")
    return page.encode("utf-8-sig" if draw.random() < 0.2 else "utf-8")


def slides(draw: random.Random, say: Say) -> bytes:
    file = pptx.Presentation()
    for _ in range(draw.randint(1, 3)):
        slide = file.slides.add_slide(file.slide_layouts[1])
        slide.shapes.title.text = say(draw, 3)
        body = slide.placeholders[1].text_frame
        for _ in range(draw.randint(1, 3)):
            paragraph = body.add_paragraph()
            paragraph.level = draw.randint(0, 2)
            for _ in range(draw.randint(1, 4)):
                run = paragraph.add_run()
                run.text = say(draw, 4) + " "
                run.font.bold, run.font.italic = draw.choice((None, True)), draw.choice((None, True))
                if draw.random() < 0.2:
                    run.hyperlink.address = "http://a.b/?c=d&e=f"
                if draw.random() < 0.2:
                    paragraph.add_line_break()
        if draw.random() < 0.5:
            cells = slide.shapes.add_table(2, 2, 0, 0, 9, 9).table
            cells.cell(0, 1).text = say(draw, 3) + "\n" + say(draw, 2)
        if draw.random() < 0.5:
            slide.notes_slide.notes_text_frame.text = say(draw, 5)
    out = io.BytesIO()
    file.save(out)
    return odd(draw, out.getvalue())


def workbook(draw: random.Random, say: Say) -> bytes:
    if draw.random() < 0.5:
        return _shared_strings(draw, say)
    file = openpyxl.Workbook()
    sheet = file.active
    sheet.append(["Name", "Other name", "Number"])
    for number in range(draw.randint(1, 4)):
        rich = CellRichText(say(draw, 2), TextBlock(InlineFont(b=True), " " + say(draw, 2)), " and " + say(draw, 1))
        cell = draw.choice((say(draw, 4), say(draw, 2) + "\n" + say(draw, 2), " " + say(draw, 1) + "  ", rich, "Name"))
        sheet.append([cell, draw.choice((True, 2.5, None, "12", "=A1")), number])
    if draw.random() < 0.5:
        sheet.add_table(NamedTable(displayName="Names", ref=f"A1:C{sheet.max_row}"))
    if draw.random() < 0.5:
        sheet["A2"].comment = Comment(say(draw, 4), "Author")
    sheet.merge_cells("E1:F2")
    file.create_sheet("Second sheet")["B2"] = say(draw, 3)
    out = io.BytesIO()
    file.save(out)
    return odd(draw, out.getvalue())


def _shared_strings(draw: random.Random, say: Say) -> bytes:
    """A workbook as Excel writes them: texts stand in a table of their own."""
    out = io.BytesIO()
    with xlsxwriter.Workbook(out) as file:
        sheet, bold = file.add_worksheet("Sheet"), file.add_format({"bold": True})
        sheet.add_table(0, 0, 3, 1, {"columns": [{"header": "Name"}, {"header": "Other name"}]})
        for row in range(1, 4):
            sheet.write_string(row, 0, draw.choice((say(draw, 4), say(draw, 2) + "\n" + say(draw, 2), "Name")))
            sheet.write_rich_string(row, 1, say(draw, 2), bold, " " + say(draw, 1), " " + say(draw, 2))
        sheet.write_formula(5, 0, '=A2&" text"', None, say(draw, 1))
        sheet.insert_textbox(7, 0, say(draw, 4))
    return odd(draw, out.getvalue())


def open_text(draw: random.Random, say: Say) -> bytes:
    file = OpenDocumentText()
    bold = Style(name="Bold", family="text")
    bold.addElement(TextProperties(fontweight="bold", language="de", country="DE"))
    file.automaticstyles.addElement(bold)

    def inline(parent: Any) -> Any:
        for _ in range(draw.randint(1, 5)):
            kind = draw.choice(("text", "span", "nested", "link", "space", "tab", "break", "note"))
            if kind in ("text", "span", "nested", "link"):
                words = f" {say(draw, 3)} "
            if kind == "text":
                parent.addText(words)
            elif kind == "span":
                parent.addElement(odt.Span(stylename=bold, text=words))
            elif kind == "nested":
                span = odt.Span(stylename=bold, text=words)
                span.addElement(odt.Span(text=say(draw, 2)))
                parent.addElement(span)
            elif kind == "link":
                parent.addElement(odt.A(href="http://a.b/?c=d&e=f", text=words))
            elif kind == "note":
                note, body = odt.Note(noteclass="footnote"), odt.NoteBody()
                note.addElement(odt.NoteCitation(text="1"))
                body.addElement(odt.P(text=say(draw, 3)))
                note.addElement(body)
                parent.addElement(note)
            else:
                parent.addElement({"space": odt.S(c=2), "tab": odt.Tab(), "break": odt.LineBreak()}[kind])
        return parent

    for _ in range(draw.randint(1, 4)):
        file.text.addElement(odt.P() if draw.random() < 0.1 else inline(odt.P()))
    file.text.addElement(inline(odt.H(outlinelevel=2)))
    table, row, cell = Table(name="T"), TableRow(), TableCell()
    cell.addElement(inline(odt.P()))
    row.addElement(cell)
    table.addElement(row)
    file.text.addElement(table)
    out = io.BytesIO()
    file.save(out)
    return odd(draw, out.getvalue())


def _joined(runs: Iterator[tuple[str, Any]]) -> list[Any]:
    """Neighbors of one format as one, without spaces, which may be on either side of a border."""
    written = ((text, form) for text, form in runs if text.strip())
    return [("".join("".join(text for text, _ in own).split()), form) for form, own in groupby(written, _form)]


def _form(run: tuple[str, Any]) -> Any:
    return run[1]


def slides_read(content: bytes) -> list[Any]:
    file = pptx.Presentation(io.BytesIO(content))

    def frames(slide: Any) -> Iterator[Any]:
        for shape in slide.shapes:
            if shape.has_text_frame:
                yield shape.text_frame
            if shape.has_table:
                yield from (cell.text_frame for cell in shape.table.iter_cells())
        if slide.has_notes_slide:
            yield slide.notes_slide.notes_text_frame

    return [
        (
            paragraph.level,
            paragraph.text,
            paragraph.text.count("\v"),
            _joined((run.text, (run.font.bold, run.font.italic, run.hyperlink.address)) for run in paragraph.runs),
        )
        for slide in file.slides
        for frame in frames(slide)
        for paragraph in frame.paragraphs
    ]


def workbook_read(content: bytes) -> list[Any]:
    file = openpyxl.load_workbook(io.BytesIO(content), rich_text=True)

    def runs(value: Any) -> Any:
        if isinstance(value, CellRichText):
            forms = ((part.text, bool(part.font.b)) if isinstance(part, TextBlock) else (part, False) for part in value)
            return str(value), _joined(forms)
        return str(value), type(value)

    cells = [(cell.coordinate, cell) for sheet in file for row in sheet.iter_rows() for cell in row]
    kept = [(sheet.title, sorted(sheet.tables), [str(area) for area in sheet.merged_cells.ranges]) for sheet in file]
    results = [(place, runs(cell.value), cell.comment and cell.comment.text) for place, cell in cells]
    return [kept, *results]


def open_text_read(content: bytes) -> list[Any]:
    def nodes(node: Any) -> Iterator[Any]:
        for child in node.childNodes:
            if child.nodeType == child.TEXT_NODE:
                if text := " ".join(str(child.data).split()):
                    yield text
            else:
                yield child.qname[1], sorted(child.attributes.items()), list(nodes(child))

    return list(nodes(load(io.BytesIO(content)).text))


def outside(content: bytes) -> dict[str, Any]:
    """The pages without their blocks of text, byte for byte, by their names; of ODT all tags."""
    out: dict[str, Any] = {}
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        for member in file.infolist():
            page = file.read(member)
            out[member.filename] = member.compress_type, page
            if _PAGES.fullmatch(member.filename):
                text = page.decode("utf-16" if page[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8")
                tags = sorted(re.findall("<[^<>]*>", text)) if "opendocument" in text else _BLOCKS.sub("", text)
                out[member.filename] = member.compress_type, tags
    return out
