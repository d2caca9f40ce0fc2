"""`sharpbeam generate`: a language model goes on with prompts."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from sharpbeam.cli.flags import with_options
from sharpbeam.options.decode import (
    DecodeOptions,
    MachineOptions,
    OutputLayerOptions,
    SamplingOptions,
    ScheduleOptions,
    SearchOptions,
)
from sharpbeam.options.schema import require
from sharpbeam.text.lines import read_lines

if TYPE_CHECKING:
    from sharpbeam.api.generator import Generation

CHUNK = 512  # prompts that are read and answered together


@with_options(without=("return_attention",))
def generate(
    model: Annotated[str, typer.Argument(help="The folder of a language model, or the name of a bundled one.")],
    *,
    prompt: Annotated[
        list[str] | None,
        typer.Option(help="The beginning of a text; may be repeated. Default: standard input, by line."),
    ] = None,
    format_: Annotated[
        str, typer.Option("--format", metavar="text|jsonl", help="text: prompt and continuation; jsonl: with scores.")
    ] = "text",
    search: SearchOptions,
    sampling: SamplingOptions,
    schedule: ScheduleOptions,
    layer: OutputLayerOptions,
    machine: MachineOptions,
) -> None:
    """Go on with each prompt until the end of its sentence; `--beam-size 1` is greedy.

    Every prompt gives exactly `--num-hypotheses` lines, best first (text), or one JSON object (jsonl) with `index`,
    `prompt` and `hypotheses`: a list of `text`, `score` and `token_scores`, all without the prompt.

    Examples:

    * `sharpbeam generate runs/lm-ptb-small/best --prompt "the company said" --max-length 30`
    * `sharpbeam generate lm-ptb-small --sampling --top-p 0.9 --num-hypotheses 3 --prompt "the company said"`
    * `sharpbeam generate runs/lm-ptb-small/best --beam-size 1 --format jsonl < prompts.txt`
    """
    require(format_ in ("text", "jsonl"), "format", format_, "text or jsonl")
    options = DecodeOptions(search, sampling, schedule, layer).by_name()
    from sharpbeam.api.generator import Generator

    generator = Generator(model, machine=machine)
    prompts = iter(prompt) if prompt else read_lines(None)
    size = 1 if not prompt and sys.stdin.isatty() else CHUNK  # a person waits for the answer to each line
    index = 0
    while chunk := list(islice(prompts, size)):
        for generation in generator.generate(chunk, **options):
            lines = [_record(index, generation)] if format_ == "jsonl" else _texts(generation, search.num_hypotheses)
            sys.stdout.buffer.write("".join(line + "\n" for line in lines).encode())
            index += 1
        sys.stdout.buffer.flush()


def _texts(generation: Generation, number: int) -> Iterable[str]:
    texts = [" ".join(filter(None, (generation.prompt, h.text))) for h in generation.hypotheses]
    return texts + [""] * (number - len(texts))  # a vocabulary may be too small for so many


def _record(index: int, generation: Generation) -> str:
    hypotheses = [
        {"text": h.text, "score": h.score, "token_scores": list(h.token_scores)} for h in generation.hypotheses
    ]
    return json.dumps({"index": index, "prompt": generation.prompt, "hypotheses": hypotheses}, ensure_ascii=False)
