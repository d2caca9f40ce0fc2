"""`sharpbeam translate`: lines in, translations out, in the same order; a job on a file can be killed and resumed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, cast

import typer

from sharpbeam.cli.flags import with_options
from sharpbeam.errors import OptionError
from sharpbeam.options.decode import DecodeOptions, MachineOptions
from sharpbeam.options.keywords import DecodeKeywords
from sharpbeam.options.schema import choice


@with_options(without=("return_scores",))
def translate(
    model: Annotated[str, typer.Argument(help="A folder, or a name of `sharpbeam info`; a+b+c is an ensemble.")],
    files: Annotated[
        list[Path] | None, typer.Argument(help="Text, one sentence a line; .gz, .zst too. Default, -: standard input.")
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
        str, typer.Option("--format", metavar="text|jsonl|pharaoh", help="jsonl has scores, pharaoh alignments.")
    ] = "text",
    encoding: Annotated[str, typer.Option(metavar="NAME", help="Encoding of the text, such as latin-1.")] = "utf-8",
    errors: Annotated[
        str, typer.Option(metavar="strict|replace", help="Bytes of another encoding: stop, or put U+FFFD.", hidden=True)
    ] = "strict",
    target_prefix: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Text that every translation begins with; adds no score.")
    ] = None,
    glossary: Annotated[
        Path | None, typer.Option(help="Terms for the search, a line each: term, tab, translation.")
    ] = None,
    field: Annotated[
        str, typer.Option(metavar="NAME", help="Lines are JSON objects; translate this field.", hidden=True)
    ] = "",
    into: Annotated[
        str, typer.Option(metavar="NAME", help="The field of translations, with --field.", hidden=True)
    ] = "translation",
    shard: Annotated[
        str, typer.Option(metavar="I/N", help="Translate part I of N parts of the lines.", hidden=True)
    ] = "1/1",
    stats: Annotated[bool, typer.Option("--stats", help="Print speed and memory on stderr, as JSON.")] = False,
    options: Annotated[DecodeKeywords, DecodeOptions],
    machine: MachineOptions,
) -> None:
    """Translate text, line by line.

    Every input line gives exactly `--num-hypotheses` output lines in the same order, best first (text), or one JSON
    object (jsonl) with `index`, `source` and `hypotheses`: a list of `text`, `score` and `token_scores`. An empty line
    gives an empty line. Lines are written as soon as they are done.

    With `--output FILE` the result grows in FILE.part and becomes FILE when it is complete. After a crash or Ctrl-C the
    same command with `--resume` continues: FILE will be the same, byte for byte.

    Examples:

    * `echo "Guten Morgen." | sharpbeam translate de-en`
    * `sharpbeam translate de-en book.txt.gz --output book.en --compute-type int8 --output-layer scan`
    * `sharpbeam translate de-en book.txt.gz --output book.en --resume`
    * `sharpbeam translate de-en corpus.jsonl.zst --field text --shard 2/8 --output part2.jsonl.zst`
    * `sharpbeam translate de-en --num-hypotheses 5 --format jsonl < questions.txt`
    * `echo "Wie geht es dir?" | sharpbeam translate m2m --source-language de --target-language fr`
    """
    from sharpbeam.api.translator import Translator
    from sharpbeam.jobs.formats import Format
    from sharpbeam.jobs.output import OutputFile, StandardOutput, writing
    from sharpbeam.jobs.progress import progress_bar
    from sharpbeam.jobs.records import Fields, Shard
    from sharpbeam.jobs.translate_file import TranslationJob
    from sharpbeam.text.encodings import check_encoding
    from sharpbeam.text.glossary import Glossary, read_glossary
    from sharpbeam.text.lines import DecodingErrors, check_readable

    choice("format", format_, Format)
    choice("errors", errors, DecodingErrors)
    charset = check_encoding(encoding)
    if (resume or restart) and output is None:
        raise OptionError("--resume and --restart need --output FILE.")
    part = Shard.of(shard)
    check_readable(inputs := files or [])
    place = OutputFile(output, resume=resume, restart=restart, inputs=inputs) if output else StandardOutput()
    with writing(place):
        translator = Translator(model, machine=machine, **options)
        how = cast(Format, format_), cast(DecodingErrors, errors), target_prefix
        terms = Glossary.of(read_glossary(glossary) if glossary else None)
        job = TranslationJob(translator, translator.defaults, inputs, *how, Fields(field, into), part, terms, charset)
        if not files and sys.stdin.isatty():
            print("sharpbeam: type text, one sentence a line; Ctrl-D ends.", file=sys.stderr)
        shown = output is not None or not sys.stdout.isatty()  # else the lines are the progress
        with progress_bar("translating", job.total, shown=shown) as bar:
            done = job.run(place, bar)
    if stats:
        print(done.json(), file=sys.stderr)
