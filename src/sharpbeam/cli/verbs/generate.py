"""`sharpbeam generate`: a language model continues prompts."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Literal

from sharpbeam.cli.command import verb
from sharpbeam.cli.flags import argument
from sharpbeam.options.decode import DecodeOptions, LanguageOptions, MachineOptions
from sharpbeam.options.keywords import DecodeKeywords
from sharpbeam.options.schema import option

if TYPE_CHECKING:
    from sharpbeam.decoding.results import Generation


@verb(
    without=("return_attention", "return_scores", LanguageOptions),
    shown=("sampling", "temperature", "top_k", "top_p", "seed"),
)
def generate(
    model: str = argument("The folder of a language model."),
    *,
    prompt: list[str] | None = option(
        None, "The beginning of a text; may be repeated. Default: standard input, by line."
    ),
    format_: Literal["text", "jsonl"] = option("text", "text: prompt and continuation; jsonl: with scores."),
    options: Annotated[DecodeKeywords, DecodeOptions],
    machine: MachineOptions,
) -> None:
    """Continue each prompt until the end of its sentence; `--beam-size 1` is greedy.

    Every prompt gives exactly `--num-hypotheses` lines, best first (text), or one JSON object (jsonl) with `index`,
    `prompt` and `hypotheses`: a list of `text`, `score` and `token_scores`, all without the prompt.

    Examples:

    * `sharpbeam generate runs/lm-ptb-small/best --prompt "the company said" --max-length 30`
    * `sharpbeam generate runs/lm-ptb-small/best --sampling --top-p 0.9 --num-hypotheses 3 --prompt "the company said"`
    """
    from sharpbeam.api.generator import Generator
    from sharpbeam.jobs.chunks import chunked_answers
    from sharpbeam.jobs.output import StandardOutput
    from sharpbeam.text.lines import TextInput

    options["return_scores"] = format_ == "jsonl"
    generator = Generator(model, machine=machine, **options)
    number = generator.defaults.search.num_hypotheses
    output, lines = StandardOutput(), TextInput([])
    prompts = iter(prompt or lines)
    with closing(chunked_answers(prompts, generator.generate_iter, ready=lines.ready)) as generations:
        for index, (text, generation) in enumerate(generations):
            one = _record(index, generation) if format_ == "jsonl" else _text(generation, number)
            output.write(text, one)
    output.commit()


def _text(generation: Generation, number: int) -> str:
    """The hypotheses as `number` lines, empty ones at the end if the vocabulary is too small for that many."""
    texts = [" ".join(filter(None, (generation.prompt, h.text))) for h in generation.hypotheses]
    return "".join(text + "\n" for text in texts) + "\n" * (number - len(texts))


def _record(index: int, generation: Generation) -> str:
    from sharpbeam.jobs.formats import answer_record

    record = {"index": index, "prompt": generation.prompt}
    record["hypotheses"] = [answer_record(hypothesis) for hypothesis in generation.hypotheses]
    return json.dumps(record, ensure_ascii=False) + "\n"
