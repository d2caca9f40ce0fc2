"""`sharpbeam translate`: lines in, translations out, in the same order; or a document in, and the same one out."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from sharpbeam.cli.command import verb
from sharpbeam.cli.flags import argument
from sharpbeam.errors import OptionError
from sharpbeam.options.decode import DecodeOptions, MachineOptions
from sharpbeam.options.documents import DocumentOptions, LineOptions
from sharpbeam.options.keywords import DecodeKeywords
from sharpbeam.options.schema import option


@verb(without=("return_scores",))
def translate(
    model: str = argument("A folder, or a name: de-en, firefox:en-pt; a+b+c is an ensemble."),
    files: list[Path] | None = argument(
        "A document, or lines; .gz, .zst too. Default, -: standard input.", default=None
    ),
    *,
    output: Path | None = option(None, "Write to this file when complete; an old one is replaced.", short="-o"),
    format_: str = option("auto", "Lines: text, jsonl, pharaoh. A document: html, docx, ...", metavar="NAME"),
    lines: bool | None = option(None, "Translate lines, or a document. Default: by the ending of the file."),
    fields: str = option("", "Columns of CSV, or keys of JSON (default: all), to translate.", metavar="A,B"),
    glossary: Path | None = option(None, "Terms, a line each: term, tab, translation; a term alone is kept."),
    text: Annotated[dict[str, Any], LineOptions],
    documents: Annotated[dict[str, Any], DocumentOptions],
    options: Annotated[DecodeKeywords, DecodeOptions],
    machine: MachineOptions,
) -> None:
    """Translate text, line by line, or a document: a web page, an office file, subtitles, texts of a program.

    Every input line gives exactly `--num-hypotheses` output lines in the same order, best first (text), or one JSON
    object (jsonl) with `index`, `source` and `hypotheses`: a list of `text`, `score` and `token_scores`. An empty line
    gives an empty line. Lines are written as soon as they are done.

    With `--output FILE` the result grows in FILE.part and becomes FILE when it is complete. After a crash or Ctrl-C the
    same command with `--resume` continues: FILE will be the same, byte for byte.

    A document is what ends in .html, .md, .docx and the like, or any file with `--no-lines`. Its markup stays or moves
    with the words, and its text is split into sentences.

    Examples:

    * `echo "Guten Morgen." | sharpbeam translate de-en`
    * `sharpbeam translate de-en book.txt.gz --output book.en --resume`
    * `sharpbeam translate de-en page.html --output page.en.html`
    * `sharpbeam translate de-en table.csv --fields title,body --output table.en.csv`
    * `sharpbeam translate de-en corpus.jsonl.zst --field text --output corpus.en.jsonl.zst`
    * `sharpbeam translate de-en --beam-size 5 --num-hypotheses 5 --format jsonl < questions.txt`
    * `echo "Wie geht es dir?" | sharpbeam translate m2m --source-language de --target-language fr`
    """
    from sharpbeam.cli.documents import document_of, run_document

    inputs, output = files or [], None if output == Path("-") else output  # standard output
    document = document_of(inputs, format_, True if text.get("field") else lines)
    if document is not None:
        _refuse(text, "lines, and this is a document")
        own: Any = {"format": format_, "glossary": glossary, "documents": DocumentOptions(**documents)}
        own["fields"] = [name for name in fields.split(",") if name]
        run_document(model, document, output, options, machine, **own)
    else:
        chosen = {"no_" * (value is False) + name: True for name, value in documents.items()}
        _refuse({"fields": fields} | chosen, "documents, and these are lines")
        own = {"format": "text" if format_ == "auto" else format_, "glossary": glossary, "machine": machine}
        _run_lines(model, inputs, output, options, **own, **text)


def _run_lines(model: str, files: Sequence[Path], output: Path | None, options: DecodeKeywords, **how: Any) -> None:
    """Translate the lines of `files` into `output`, with progress on stderr, and figures if `how` has stats."""
    from sharpbeam.jobs.progress import progress_bar
    from sharpbeam.jobs.translate_file import count_lines, translate_file
    from sharpbeam.text.glossary import read_glossary

    if (how.get("resume") or how.get("restart")) and output is None:
        raise OptionError("--resume and --restart need --output FILE.")
    if not files and sys.stdin.isatty():
        print("sharpbeam: type text; Ctrl-D ends.", file=sys.stderr)
    shown = output is not None or not sys.stdout.isatty()  # else the lines are the progress
    languages = options.get("source_language", ""), options.get("target_language", "")
    glossary, stats = how.pop("glossary"), how.pop("stats", False)
    how["glossary"] = read_glossary(glossary, *languages) if glossary else None
    with progress_bar("translating", lambda: count_lines(files, how.get("encoding", "utf-8")), shown=shown) as bar:
        figures = translate_file(model, files, output, **how, progress=bar, **options)
    if stats:
        print(figures.json(), file=sys.stderr)


def _refuse(flags: Mapping[str, Any], why: str) -> None:
    """Raise OptionError for the first of `flags` that has a value."""
    for name, value in flags.items():
        if value not in (None, False, ""):
            raise OptionError(f"--{name.replace('_', '-')} is for {why}; leave it out.")
