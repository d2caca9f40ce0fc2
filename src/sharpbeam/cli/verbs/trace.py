"""`sharpbeam trace`: every step of one beam search."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from sharpbeam.cli.flags import with_options
from sharpbeam.options.decode import DecodeOptions, MachineOptions, SamplingOptions, ScheduleOptions
from sharpbeam.options.keywords import DecodeKeywords

if TYPE_CHECKING:
    from sharpbeam.decoding.trace import Trace


@with_options(
    without=(
        *("sampling", "return_alternatives", "return_attention", "return_scores", "min_alternative_expansion_prob"),
        *(SamplingOptions, ScheduleOptions),
    )
)
def trace(
    model: Annotated[str, typer.Argument(help="A model folder, or the name of a bundled model.")],
    text: Annotated[str, typer.Argument(help="The sentence, or the prompt of a language model.")],
    *,
    target_prefix: Annotated[str | None, typer.Option(metavar="TEXT", help="What the translation begins with.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
    options: Annotated[DecodeKeywords, DecodeOptions],
    machine: MachineOptions,
) -> None:
    """Show one beam search: the candidates of each step with their scores and outcomes, and why it stopped.

    It is the search that `translate` uses, with the model's own beam unless `--beam-size` says otherwise.

    A candidate lives, is finished, has no place on the beam, is below the threshold of a beam of variable width
    (`--max-score-margin`, `--max-score-ratio`), or is not allowed (`--min-length`, rules against repetition). The first
    number is its sum of log probabilities, the second the log probability of its last piece; the scores of the answers
    are divided by the length penalty. With `--cube-pruning` rows that share their candidates stand in brackets.

    Examples:

    * `sharpbeam trace de-en "Wie spät ist es?"`
    * `sharpbeam trace de-en "Wie spät ist es?" --beam-size 3 --max-score-margin 1.5`
    * `sharpbeam trace de-en "Wie spät ist es?" --json | jq .why`
    """
    record = _search(model, text, target_prefix, options, machine)
    print(json.dumps(record.record(), ensure_ascii=False) if as_json else record.summary())


def _search(model: str, text: str, prefix: str | None, options: DecodeKeywords, machine: MachineOptions) -> Trace:
    """The record of one search, by the kind of the model."""
    from sharpbeam.api.generator import Generator
    from sharpbeam.api.translator import Translator
    from sharpbeam.decoding.loading import find_models, task_of
    from sharpbeam.errors import OptionError

    if task_of(find_models(model)[0]) == "translation":
        return Translator(model, machine=machine, **options).trace(text, target_prefix=prefix)
    if prefix is not None:
        raise OptionError("--target-prefix is for translations; append it to the prompt.")
    return Generator(model, machine=machine, **options).trace(text)
