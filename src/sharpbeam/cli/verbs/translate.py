"""`sharpbeam translate`: lines in, translations out, in the same order; a job on a file can be killed and resumed."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Annotated, cast

import typer

from sharpbeam.cli.flags import with_options
from sharpbeam.errors import OptionError
from sharpbeam.jobs.journal import Output, OutputFile, StandardOutput
from sharpbeam.jobs.translate_file import Count, TranslationJob
from sharpbeam.options.decode import (
    DecodeOptions,
    LanguageOptions,
    MachineOptions,
    OutputLayerOptions,
    SamplingOptions,
    ScheduleOptions,
    SearchOptions,
)
from sharpbeam.options.schema import require
from sharpbeam.text.lines import DecodingErrors, check_readable


@with_options()
def translate(
    model: Annotated[
        str, typer.Argument(help="A folder, or a bundled model's name (`sharpbeam info`); a+b+c is an ensemble.")
    ],
    files: Annotated[
        list[Path] | None, typer.Argument(help="Text, one sentence a line; .gz too. Default, and -: standard input.")
    ] = None,
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write here instead of standard output; crash-safe.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with --output; all but some 10 s is kept.")] = False,
    restart: Annotated[bool, typer.Option("--restart", help="Throw an interrupted --output away.")] = False,
    format_: Annotated[
        str,
        typer.Option("--format", metavar="text|jsonl|pharaoh", help="jsonl: with scores; pharaoh: text ||| 0-0 1-2."),
    ] = "text",
    errors: Annotated[
        str, typer.Option(metavar="strict|replace", help="Invalid UTF-8: stop and name the line, or put U+FFFD.")
    ] = "strict",
    target_prefix: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What every translation begins with; it adds nothing to scores.")
    ] = None,
    stats: Annotated[bool, typer.Option("--stats", help="Print speed and memory on stderr, as JSON.")] = False,
    search: SearchOptions,
    sampling: SamplingOptions,
    schedule: ScheduleOptions,
    layer: OutputLayerOptions,
    languages: LanguageOptions,
    machine: MachineOptions,
) -> None:
    """Translate text, line by line.

    Every input line gives exactly `--num-hypotheses` output lines in the same order, best first (text), or one JSON
    object (jsonl) with `index`, `source` and `hypotheses`: a list of `text`, `score` and `token_scores`.
    An empty line gives an empty line. `--return-attention` adds `source_tokens`, `tokens`, `alignment` ("0-0 1-2":
    source and target) and `attention`: for each of `token_scores` the shares of the source tokens and the source's end.

    With `--output FILE` the result grows in FILE.part, by some 10 seconds of work or 512 lines, and becomes FILE when
    it is whole. After a crash or Ctrl-C the same command with `--resume` goes on: FILE will be the same, byte for byte.

    Examples:

    * `echo "Guten Morgen." | sharpbeam translate de-en`
    * `sharpbeam translate de-en book.txt.gz --output book.en`
    * `sharpbeam translate de-en book.txt.gz --output book.en --resume`
    * `sharpbeam translate de-en+runs/de-en-2/best < questions.txt`
    * `sharpbeam translate de-en --num-hypotheses 5 --format jsonl < questions.txt`
    * `sharpbeam translate de-en --sampling --temperature 0.7 --top-k 20 --num-hypotheses 4 < questions.txt`
    * `echo "Wie geht es dir?" | sharpbeam translate de-en --target-prefix "So how"`
    * `echo "Wie geht es dir?" | sharpbeam translate m2m --source-language de --target-language fr`
    * `echo "Wie geht es dir?" | sharpbeam translate de-en --return-alternatives --num-hypotheses 4`
    """
    search = _checked(search, format_, errors, output is not None or not (resume or restart))
    check_readable(paths := files or [])
    choices = DecodeOptions(search, sampling, schedule, layer, languages)
    job = TranslationJob(model, paths, format_, cast(DecodingErrors, errors), target_prefix, choices, machine)
    count = _run(job, _place(output, paths, resume, restart))
    if stats:
        print(count.stats(), file=sys.stderr)


def _checked(search: SearchOptions, format_: str, errors: str, resumable: bool) -> SearchOptions:
    """The search, with attention where the format needs it; raises OptionError for flags that do not fit together."""
    require(format_ in ("text", "jsonl", "pharaoh"), "format", format_, "text, jsonl or pharaoh")
    holds = format_ != "text" or not search.return_attention
    require(holds, "format", format_, "jsonl or pharaoh with return_attention, which text cannot hold")
    require(errors in ("strict", "replace"), "errors", errors, "strict or replace")
    if not resumable:
        raise OptionError("--resume and --restart need --output FILE.")
    return dataclasses.replace(search, return_attention=True) if format_ == "pharaoh" else search


def _run(job: TranslationJob, place: Output) -> Count:
    """The job, and what the person should know about a part that is kept."""
    failed, interrupted = True, False
    try:
        count = job.run(place)
        failed = False
    except KeyboardInterrupt:
        interrupted = True
        raise
    finally:
        kept = place.close(failed, interrupted)
        if kept:
            print(f"sharpbeam: {kept}", file=sys.stderr)
    return count


def _place(output: Path | None, inputs: list[Path], resume: bool, restart: bool) -> Output:
    """Where results go."""
    if output is None:
        return StandardOutput()
    return OutputFile(output, resume=resume, restart=restart, inputs=inputs)
