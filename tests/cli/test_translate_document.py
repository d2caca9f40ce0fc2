"""`sharpbeam translate` with documents: by the ending of the file, `--lines`, `--no-lines` and `--format`."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from support.command import Run

QUICK = ("--beam-size", 1, "--max-length", 8)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.html"
    path.write_text("<p class='x'>ba de ki</p>\n", encoding="utf-8")
    return path


def test_a_document_is_known_by_its_ending(call: Run, tiny_model: Path, page: Path) -> None:
    out = page.with_name("out")
    result = call("translate", tiny_model, page, "--output", out, "--no-guards", *QUICK)
    assert (result.status, result.lines) == (0, []), result.err
    text = out.read_text(encoding="utf-8")
    assert text.startswith("<p class='x'>") and text.endswith("</p>\n") and "ba de ki" not in text
    (plain := page.with_name("plain.txt")).write_text("ba de ki", encoding="utf-8")
    line = call("translate", tiny_model, plain, *QUICK)
    assert f"<p class='x'>{line.lines[0]}</p>\n" == text


def test_lines_and_documents_can_be_chosen(call: Run, tiny_model: Path, page: Path) -> None:
    lines = page.with_name("some.md")
    lines.write_text("ba de\n\nki lo\n", encoding="utf-8")
    for flags in (("--lines",), ("--format", "jsonl"), ("--lines", "--stats")):
        assert len(call("translate", tiny_model, lines, *flags, *QUICK).lines) == 3
    out = page.with_name("out")
    text = page.with_name("a.txt")
    text.write_text("ba de. Ki lo.\n", encoding="utf-8")
    unknown = page.with_name("book.de")
    unknown.write_text("ba de. Ki lo.\n", encoding="utf-8")
    chosen = [
        (text, ["--no-lines"]),
        (unknown, ["--no-lines"]),
        (page, ["--no-lines", "--format", "text"]),
        (page, ["--format", "html"]),
    ]
    for file, flags in chosen:
        assert call("translate", tiny_model, file, *flags, "--output", out, "--no-guards", *QUICK).status == 0
        assert out.read_text(encoding="utf-8").count("\n") == 1


def test_flags_of_the_other_kind_are_refused(call: Run, tiny_model: Path, page: Path) -> None:
    out = ("--output", page.with_name("out"))
    call("translate", tiny_model, page).refused(2, "page.html is a document; give --output FILE, or --lines")
    call("translate", tiny_model, page, *out, "--resume").refused(2, "--resume is for lines, and this is a document")
    call("translate", tiny_model, page, page, *out).refused(2, "page.html is read from a file of its own", "--lines")
    for inputs in (["--no-lines"], ["--format", "html"], ["-", "--format", "html"]):
        call("translate", tiny_model, *inputs).refused(2, "a document is read from a file of its own: give one FILE")
    (packed := page.with_name("page.html.gz")).write_bytes(gzip.compress(page.read_bytes()))
    call("translate", tiny_model, packed, *out).refused(2, "page.html.gz is a packed document: unpack it first")
    call("translate", tiny_model, packed, *out, "--no-lines").refused(2, "page.html.gz is a packed document")
    assert call("translate", tiny_model, packed, *out, "--format", "text", *QUICK).status == 0
    call("translate", tiny_model, page, "--lines", "--fields", "a").refused(2, "--fields is for documents")
    call("translate", tiny_model, page, "--lines", "--no-guards").refused(2, "--no-guards is for documents")
    call("translate", tiny_model, page, "--lines", "--into", "x").refused(
        2, "into is 'x'; it must be left out without field"
    )
    call("translate", tiny_model, page, "--format", "htm").refused(2, "format is 'htm'", "Did you mean 'html'")
    for place in (page.parent / "none" / "out", page.parent):
        call("translate", tiny_model, page, "--output", place).refused(1, f"cannot write {place}; give the name")
    (link := page.with_name("link")).symlink_to("aim")
    assert call("translate", tiny_model, page, "--output", link, *QUICK).status == 0
    assert link.is_symlink() and page.with_name("aim").read_text(encoding="utf-8").startswith("<p")
    if hasattr(os, "mkfifo"):
        os.mkfifo(pipe := page.with_name("pipe"))
        call("translate", tiny_model, page, "--output", pipe).refused(1, f"cannot write {pipe}")
    table = page.with_name("a.csv")
    table.write_text("x,y\n1,2\n")
    call("translate", tiny_model, table, *out).refused(2, "fields is empty", "of x, y", "--fields A,B")
