"""`sharpbeam translate-document`: a page or another document in, the same document in another language out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from sharpbeam.cli.flags import with_options
from sharpbeam.options.decode import LanguageOptions, MachineOptions, OutputLayerOptions, ScheduleOptions, SearchOptions
from sharpbeam.options.documents import DocumentOptions
from sharpbeam.options.keywords import DecodeKeywords


@with_options()
def translate_document(
    model: Annotated[str, typer.Argument(help="A folder, or a bundled model's name (`sharpbeam info`).")],
    source: Annotated[Path, typer.Argument(help="The document.")],
    *,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Write to this file when it is complete; one that is there is replaced."),
    ],
    format_: Annotated[
        str, typer.Option("--format", metavar="NAME", help="Format of the document; auto = by its suffix.")
    ] = "auto",
    fields: Annotated[
        str, typer.Option(metavar="A,B", help="Columns of CSV, or keys of JSON (default: all), to translate.")
    ] = "",
    glossary: Annotated[
        Path | None, typer.Option(help="Terms, a line each: term, tab, translation; a term alone is kept.")
    ] = None,
    documents: DocumentOptions,
    options: Annotated[DecodeKeywords, SearchOptions, ScheduleOptions, OutputLayerOptions, LanguageOptions],
    machine: MachineOptions,
) -> None:
    """Translate a document, with its markup: text, HTML, Markdown, SRT, VTT, PO, JSON, CSV, DOCX, EPUB.

    Paragraphs, tags, attributes and code stay as they are; bold text, links and other inline markup move with their
    words. Text is split into sentences, so a paragraph may be long.

    Examples:

    * `sharpbeam translate-document de-en page.html --output page.en.html`
    * `sharpbeam translate-document de-en table.csv --fields title,body --output table.en.csv`
    """
    from sharpbeam.api.translator import Translator
    from sharpbeam.documents import read_glossary
    from sharpbeam.documents.translation import translate_document as run
    from sharpbeam.jobs.progress import progress_bar

    hint: Any = {name: dict(options).get(name) for name in ("source_language", "target_language") if name in options}
    options = cast(DecodeKeywords, {name: value for name, value in options.items() if name not in hint})
    terms = read_glossary(glossary) if glossary else None
    names = [name for name in fields.split(",") if name]
    translator = Translator(model, machine=machine, **options)
    how: Any = {"format": format_, "fields": names, "glossary": terms, "documents": documents, **hint}
    with progress_bar("translating", None) as bar:
        done = run(translator, source, output, progress=bar, **how)
    if done.flagged:
        first = done.flagged[0]
        count = f"{len(done.flagged)} of {len(done.sentences)} sentences"
        print(f"sharpbeam: {count} may be wrong; the first ({', '.join(first.flags)}): {first.source}", file=sys.stderr)
