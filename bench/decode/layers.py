"""Whole translations of one model by output layer: speed, quality, and answers that are those of the exact layer.

`python -m bench decode.layers MODEL --text FILE --layers scan,shortlist` takes a model folder with the artifacts that
the layers need, fitted to other text than is measured. Each layer translates greedily and with a beam of 5, one
sentence at a time and in batches, on one thread, interleaved; the first layer is the baseline. No time is taken of a
layer that loses more than a BLEU, or, without references, changes more than a tenth of the sentences. With `--rounds 0`
answers are compared, in batches, and no time is taken.
"""

from __future__ import annotations

import json
import os
import time
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.flags import Rounds, Sentences
from bench.harness import record
from bench.harness.interleave import interleave
from sharpbeam import Translator
from sharpbeam.report.quality import quality
from sharpbeam.text.lines import read_lines

BEAMS, BATCHES = (1, 5), (1, 32)
BLEU_DISTANCE, DIFFERENT = 1.0, 0.1


class DisagreementError(Exception):
    """A layer answers too unlike the exact one, so its time means nothing."""


def translate(translator: Translator, texts: list[str], batch: int, **options: Any) -> list[str]:
    """The translations, `batch` sentences a call."""
    parts = (texts[first : first + batch] for first in range(0, len(texts), batch))
    return [answer.text for part in parts for answer in translator.translate(part, raw=True, **options)]


def measure(
    translator: Translator, layers: list[str], pairs: list[list[str]], beam_size: int, batch: int, rounds: int
) -> dict[str, Any]:
    """Milliseconds a sentence, ratios, BLEU and sentences that differ, by layer; raises DisagreementError."""
    texts, references = [pair[0] for pair in pairs], [pair[1] for pair in pairs if len(pair) > 1]
    exact = translate(translator, texts, batch, beam_size=beam_size, output_layer="exact")
    figures: dict[str, dict[str, float]] = {layer: {} for layer in layers}

    def check(answers: dict[str, list[str]]) -> None:
        for layer, own in answers.items():
            figures[layer]["differ"] = differ = sum(map(str.__ne__, own, exact))
            if references:
                bleu, best = quality(own, references).bleu, quality(exact, references).bleu
                figures[layer] |= {"bleu": round(bleu, 2), "bleu_exact": round(best, 2)}
            if bleu < best - BLEU_DISTANCE if references else differ > DIFFERENT * len(texts):
                raise DisagreementError(f"{layer}: {figures[layer]}")

    runs = {
        layer: partial(translate, translator, texts, batch, beam_size=beam_size, output_layer=layer) for layer in layers
    }
    if not rounds:
        check({layer: run() for layer, run in runs.items()})
        return figures
    for layer, timing in interleave(runs, layers[0], rounds, check, time.process_time).items():
        figures[layer] |= {"ms": round(1e3 * timing.median_s / len(texts), 3), **timing.ratios()}
    return figures


def main(
    model: Annotated[Path, typer.Argument(help="a model folder")],
    text: Annotated[Path, typer.Option(help="sources, one a line; after a tab their references, if there are any")],
    layers: Annotated[str, typer.Option(help="names with commas between; the first is the baseline")] = "scan",
    name: Annotated[str, typer.Option(help="what to call the model in the results")] = "",
    compute_type: str = "int8",
    sentences: Sentences = 100,
    rounds: Rounds = 3,
) -> None:
    """Measure, print and record."""
    os.environ["SHARPBEAM_EXACT"] = "0"  # "auto" is what users have; the compute type is named
    pairs = [line.split("\t") for line in islice(read_lines(text), sentences or None)]
    translator = Translator(model, compute_type=compute_type, threads=1)  # type: ignore[arg-type]
    for beam_size, batch in product(BEAMS, BATCHES if rounds else BATCHES[-1:]):
        figures = {"layers": measure(translator, layers.split(","), pairs, beam_size, batch, rounds)}
        options = {"model": name or model.name, "beam_size": beam_size, "batch": batch, "sentences": len(pairs)}
        options |= {"compute_type": compute_type, "rounds": rounds}
        print(json.dumps(record.write("output_layers", figures, threads=1, options=options)), flush=True)
