"""`sharpbeam score`: how likely the model thinks given translations, or a text, are."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from sharpbeam.cli.command import verb
from sharpbeam.cli.flags import argument
from sharpbeam.errors import InputError, OptionError
from sharpbeam.options.decode import LanguageOptions, MachineOptions, ScheduleOptions
from sharpbeam.options.keywords import DecodeKeywords
from sharpbeam.options.schema import option

if TYPE_CHECKING:
    from sharpbeam.decoding.results import Answer


@verb()
def score(
    model: str = argument("A model folder, or the name of a bundled model; a+b is an ensemble."),
    *,
    source: Path | None = option(None, "Source text, one sentence a line; .gz too."),
    target: Path | None = option(None, "Its translations, line by line."),
    length_penalty: float = option(0.0, "score = log_prob / length ** length_penalty; 0 = the log probability itself."),
    format_: Literal["text", "jsonl"] = option("text", "text: the score; jsonl: with token scores."),
    encoding: str = option("utf-8", "Encoding of the text, such as latin-1.", metavar="NAME"),
    apart: bool = option(False, "Language models: each line by itself, not as one text with those before."),
    options: Annotated[DecodeKeywords, ScheduleOptions, LanguageOptions],
    machine: MachineOptions,
) -> None:
    """Score translations, or text by a language model: one score a line, the higher the better.

    Without `--source` and `--target`, standard input gives a source, a tab and its translation on each line. In jsonl a
    line holds `index`, `score`, `log_prob`, `tokens` and `token_scores`; the last token score is that of the end of the
    sentence.

    A language model scores the lines of `--target`, or of standard input, and prints the log probability and the
    perplexity of all of them on standard error.

    Examples:

    * `sharpbeam score de-en --source test.de --target test.en`
    * `paste test.de test.en | sharpbeam score de-en --format jsonl`
    * `sharpbeam score runs/lm-ptb-small/best --target ptb.test.txt`
    """
    from sharpbeam.api.scorer import Scorer, perplexity
    from sharpbeam.decoding.loading import find_models, task_of
    from sharpbeam.jobs.output import StandardOutput
    from sharpbeam.jobs.progress import progress_bar
    from sharpbeam.jobs.score_lines import record, score_lines
    from sharpbeam.text.lines import TextInput

    language = task_of(find_models(model)[0]) == "language"
    _check_sides(source, target, language, apart)
    options["length_penalty"] = length_penalty
    how: Any = {"machine": machine, **options}
    if language:
        lines = TextInput([target] if target else [], encoding=encoding)
        answers = score_lines(Scorer(model, **how), lines, apart)
    else:
        answers = _score_translations(model, source, target, encoding, how)
    output = StandardOutput()
    count, tokens, log_prob = 0, 0, 0.0
    with progress_bar("scoring", None, shown=not sys.stdout.isatty()) as bar:
        for index, answer in enumerate(answers):
            line = f"{answer.score:.6f}" if format_ == "text" else json.dumps(record(index, answer), ensure_ascii=False)
            output.write("", line + "\n")
            count, tokens = count + 1, tokens + len(answer.token_scores)
            log_prob += sum(answer.token_scores)
            bar(1)
    output.commit()
    if language:
        if not count:
            raise InputError(f"{target or 'standard input'} is empty; there is nothing to score.")
        figures = f"log_prob {log_prob:.3f}, perplexity {perplexity(log_prob, tokens):.3f}"
        print(f"{count} lines, {tokens} tokens with the ends of lines: {figures}", file=sys.stderr)


def _score_translations(
    model: str, source: Path | None, target: Path | None, encoding: str, how: Any
) -> Iterator[Answer]:
    """The scores of translations: of the lines of two files, or of two columns of standard input."""
    from sharpbeam.api.translator import Translator
    from sharpbeam.jobs.score_lines import score_pairs
    from sharpbeam.text.lines import StandardInput, check_encoding, check_readable, column_pairs, file_pairs

    charset, stdin = check_encoding(encoding), StandardInput()
    check_readable([path for path in (source, target) if path])
    translator = Translator(model, **how)
    if source and target:
        pairs = file_pairs(source, target, encoding=charset)
    else:
        pairs = column_pairs(None, 0, 1, standard_input=stdin, encoding=charset, others=False)
    return score_pairs(translator, pairs, stdin.ready)


def _check_sides(source: Path | None, target: Path | None, language: bool, apart: bool) -> None:
    """Raise OptionError for files or flags that are not for this kind of model."""
    if language and source is not None:
        raise OptionError("--source is for translations; a language model scores --target or standard input.")
    if apart and not language:
        raise OptionError("--apart is for language models; translations are always scored one by one.")
    if not language and (source is None) != (target is None):
        raise OptionError("--source and --target belong together; give both, or tab-separated text on standard input.")
