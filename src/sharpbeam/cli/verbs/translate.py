"""`sharpbeam translate`: lines in, translations out, in the same order; or a document in, and the same one out."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from sharpbeam.cli.flags import with_options
from sharpbeam.errors import OptionError
from sharpbeam.options.decode import DecodeOptions, MachineOptions
from sharpbeam.options.documents import DocumentOptions
from sharpbeam.options.keywords import DecodeKeywords


@with_options(without=("return_scores",))
def translate(
    model: Annotated[str, typer.Argument(help="A folder, or a name: de-en, firefox:en-pt; a+b+c is an ensemble.")],
    files: Annotated[
        list[Path] | None, typer.Argument(help="A document, or lines; .gz, .zst too. Default, -: standard input.")
    ] = None,
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file when complete; an old one is replaced.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted --output; some 10 s of work are repeated.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Discard an interrupted --output, or another result.", hidden=True)
    ] = False,
    format_: Annotated[
        str, typer.Option("--format", metavar="NAME", help="Lines: text, jsonl, pharaoh. A document: html, docx, ...")
    ] = "auto",
    lines: Annotated[
        bool | None,
        typer.Option("--lines/--no-lines", help="Translate lines, or a document. Default: by the ending of the file."),
    ] = None,
    fields: Annotated[
        str, typer.Option(metavar="A,B", help="Columns of CSV, or keys of JSON (default: all), to translate.")
    ] = "",
    encoding: Annotated[str, typer.Option(metavar="NAME", help="Encoding of the text, such as latin-1.")] = "utf-8",
    errors: Annotated[
        str, typer.Option(metavar="strict|replace", help="Bytes of another encoding: stop, or put U+FFFD.", hidden=True)
    ] = "strict",
    target_prefix: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Text that every translation begins with; adds no score.", hidden=True),
    ] = None,
    glossary: Annotated[
        Path | None, typer.Option(help="Terms, a line each: term, tab, translation; a term alone is kept.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Decode lines as they stand, without splitting or protection.", hidden=True)
    ] = False,
    keep: Annotated[
        list[str] | None, typer.Option(metavar="REGEX", help="Protect what matches this; repeatable.", hidden=True)
    ] = None,
    flags: Annotated[
        bool, typer.Option("--flags", help="End each line in a tab and its faults: loop, copy, span.", hidden=True)
    ] = False,
    field: Annotated[
        str, typer.Option(metavar="NAME", help="Lines are JSON objects; translate this field.", hidden=True)
    ] = "",
    into: Annotated[
        str, typer.Option(metavar="NAME", help="The field of translations, with --field.", hidden=True)
    ] = "translation",
    shard: Annotated[
        str, typer.Option(metavar="I/N", help="Translate part I of N parts of the lines.", hidden=True)
    ] = "1/1",
    stats: Annotated[
        bool, typer.Option("--stats", help="Print speed and memory on stderr, as JSON.", hidden=True)
    ] = False,
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
    * `sharpbeam translate de-en book.txt.gz --output book.en --compute-type int8 --output-layer scan`
    * `sharpbeam translate de-en book.txt.gz --output book.en --resume`
    * `sharpbeam translate de-en page.html --output page.en.html`
    * `sharpbeam translate de-en table.csv --fields title,body --output table.en.csv`
    * `sharpbeam translate de-en corpus.jsonl.zst --field text --shard 2/8 --output part2.jsonl.zst`
    * `sharpbeam translate de-en --num-hypotheses 5 --format jsonl < questions.txt`
    * `echo "Wie geht es dir?" | sharpbeam translate m2m --source-language de --target-language fr`
    """
    from sharpbeam.cli.documents import document_of, run_document
    from sharpbeam.jobs.progress import progress_bar
    from sharpbeam.jobs.translate_file import count_lines, translate_file
    from sharpbeam.text.encodings import check_encoding
    from sharpbeam.text.glossary import read_glossary

    inputs, charset = files or [], check_encoding(encoding)
    document = document_of(inputs, format_, True if field else lines)
    if document is not None:
        plain = {"resume": resume, "restart": restart, "target_prefix": target_prefix, "stats": stats, "raw": raw}
        plain |= {"keep": bool(keep), "flags": flags, "encoding": charset != "utf-8", "shard": shard != "1/1"}
        _refuse(plain, "lines, and this is a document")
        own: dict[str, Any] = {"format": format_, "fields": fields, "glossary": glossary, "documents": documents}
        run_document(model, document, output, **own, options=options, machine=machine)
        return
    chosen = {"no_" * (value is False) + name: True for name, value in documents.items()}
    _refuse({"fields": fields} | chosen, "documents, and these are lines")
    if (resume or restart) and output is None:
        raise OptionError("--resume and --restart need --output FILE.")
    if not files and sys.stdin.isatty():
        print("sharpbeam: type text; Ctrl-D ends.", file=sys.stderr)
    shown = output is not None or not sys.stdout.isatty()  # else the lines are the progress
    languages = options.get("source_language", ""), options.get("target_language", "")
    with progress_bar("translating", lambda: count_lines(inputs, shard, charset), shown=shown) as bar:
        figures = translate_file(
            model,
            inputs,
            output,
            resume=resume,
            restart=restart,
            format=cast(Any, "text" if format_ == "auto" else format_),
            encoding=charset,
            errors=cast(Any, errors),
            target_prefix=target_prefix,
            glossary=read_glossary(glossary, *languages) if glossary else None,
            raw=raw,
            keep=keep or (),
            flags=flags,
            field=field,
            into=into,
            shard=shard,
            progress=bar,
            machine=machine,
            **options,
        )
    if stats:
        print(figures.json(), file=sys.stderr)


def _refuse(flags: Mapping[str, Any], why: str) -> None:
    """Raise OptionError for the first of `flags` that has a value."""
    for name, value in flags.items():
        if value not in (None, False, ""):
            raise OptionError(f"--{name.replace('_', '-')} is for {why}; leave it out.")
