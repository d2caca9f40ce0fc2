"""`sharpbeam score`: how likely the model thinks given translations are."""

from __future__ import annotations

import dataclasses
import json
import logging
import sys
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sharpbeam.cli.flags import with_options
from sharpbeam.errors import InputError, OptionError
from sharpbeam.jobs.progress import progress_bar
from sharpbeam.jobs.translate_file import CHUNK
from sharpbeam.jobs.warnings import engine_warnings
from sharpbeam.options.decode import LanguageOptions, MachineOptions, ScheduleOptions
from sharpbeam.options.schema import require
from sharpbeam.text.lines import check_readable
from sharpbeam.text.pairs import Pair, column_pairs, file_pairs

if TYPE_CHECKING:
    from sharpbeam.api.translator import Answer


@with_options()
def score(
    model: Annotated[str, typer.Argument(help="A model folder, or the name of a bundled model; a+b is an ensemble.")],
    *,
    source: Annotated[Path | None, typer.Option(help="Source text, one sentence a line; .gz too.")] = None,
    target: Annotated[Path | None, typer.Option(help="Its translations, line by line.")] = None,
    length_penalty: Annotated[
        float, typer.Option(help="score = log_prob / length ** length_penalty; 0 = the log probability itself.")
    ] = 0.0,
    format_: Annotated[
        str, typer.Option("--format", metavar="text|jsonl", help="text: the score; jsonl: with token scores.")
    ] = "text",
    apart: Annotated[
        bool, typer.Option("--apart", help="Language models: each line by itself, not as one text with those before.")
    ] = False,
    schedule: ScheduleOptions,
    languages: LanguageOptions,
    machine: MachineOptions,
) -> None:
    """Score translations, or text by a language model: one score a line, the higher the better.

    Without `--source` and `--target`, standard input gives a source, a tab and its translation on each line.
    In jsonl a line holds `index`, `score`, `log_prob`, `tokens` and `token_scores`; the last token score is that of
    the end of the sentence.

    A language model scores the lines of `--target`, or of standard input, and says the log probability and the
    perplexity of all of them on standard error.

    Examples:

    * `sharpbeam score de-en --source test.de --target test.en`
    * `paste test.de test.en | sharpbeam score de-en --format jsonl`
    * `sharpbeam score runs/lm-ptb-small/best --target ptb.test.txt`
    """
    require(format_ in ("text", "jsonl"), "format", format_, "text or jsonl")
    if _is_language(model):
        if source is not None:
            raise OptionError("--source is for translations; a language model scores --target or standard input.")
        check_readable([target] if target else [])
        from sharpbeam.cli.verbs.score_text import score_text

        score_text(model, target, apart, length_penalty, partial(_render, format_=format_), machine)
        return
    if apart:
        raise OptionError("--apart is for language models; translations are always scored one by one.")
    if (source is None) != (target is None):
        raise OptionError("--source and --target belong together; give both, or tab-separated text on standard input.")
    if source and target:
        check_readable([source, target])
        pairs = file_pairs(source, target)
    else:
        pairs = column_pairs(None, 0, 1)
    _score_pairs(model, pairs, format_, length_penalty, schedule, languages, machine)


def _is_language(model: str) -> bool:
    """Whether this is a language model. Raises ModelError where it is none at all."""
    from sharpbeam.decoding.loading import find_models
    from sharpbeam.models.registry import architecture_of
    from sharpbeam.storage.model_folder import read_config

    return architecture_of(read_config(find_models(model)[0])).task == "language"


def _score_pairs(
    model: str,
    pairs: Iterator[Pair],
    format_: str,
    length_penalty: float,
    schedule: ScheduleOptions,
    languages: LanguageOptions,
    machine: MachineOptions,
) -> None:
    from sharpbeam.api.translator import Translator

    translator = Translator(model, machine=machine)
    options: dict[str, Any] = {"length_penalty": length_penalty, "batch_tokens": schedule.batch_tokens}
    options |= dataclasses.asdict(languages)
    options["max_input_length"] = schedule.max_input_length
    index = 0
    warnings = _ChunkWarnings()
    with engine_warnings(warnings), progress_bar("scoring", None) as bar:
        while chunk := list(islice(_checked(pairs, index), CHUNK)):
            warnings.first_line = index + 1
            try:
                answers = translator.score([left for left, _ in chunk], [right for _, right in chunk], **options)
            except InputError as error:
                raise InputError(f"{error} Target 0 is line {index + 1}.") from error
            result = "".join(_render(index + i, answer, format_) for i, answer in enumerate(answers))
            with bar.aside():
                sys.stdout.buffer.write(result.encode())
                sys.stdout.buffer.flush()
            index += len(chunk)
            bar(len(chunk))


class _ChunkWarnings(logging.Handler):
    """Prints the engine's warnings, which count texts from the start of a chunk."""

    first_line = 1

    def emit(self, record: logging.LogRecord) -> None:
        """Print one warning and the line that text 0 is."""
        print(f"sharpbeam: {record.getMessage()}; text 0 is line {self.first_line}", file=sys.stderr)


def _checked(pairs: Iterator[Pair], done: int) -> Iterator[Pair]:
    """The pairs as they are; an empty source raises InputError by its line."""
    for number, pair in enumerate(pairs, done + 1):
        if not pair[0].strip():
            raise InputError(f"the source of line {number} is empty; it has no translation to score.")
        yield pair


def _render(index: int, answer: Answer, format_: str) -> str:
    if format_ == "text":
        return f"{answer.score:.6f}\n"
    record = {
        "index": index,
        "score": answer.score,
        "log_prob": answer.log_prob,
        "tokens": list(answer.tokens),
        "token_scores": list(answer.token_scores),
    }
    return json.dumps(record, ensure_ascii=False) + "\n"
