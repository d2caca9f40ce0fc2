"""Whole translations on a GPU: a screen against all tokens (CVP-4), and STREAM's strategies.

Tokens of the answers per second, BLEU next to it, memory. Beam 1 one sentence at a time, beam 2 in batches of 20. The
answers of float16 may differ in near-ties with the batch, so BLEU is what is compared, with the share of equal texts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

import torch
import typer

from bench.flags import Data, Model
from bench.gpu.device import device_of, wait
from bench.harness import record
from bench.harness.interleave import interleave
from bench.harness.testset import DATA, test_pairs
from bench.harness.with_screen import layer_options
from bench.papers.stream.stream import BASELINE, WHOLE, Contender, strategies
from sharpbeam import Translation, Translator
from sharpbeam.errors import ModelError
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.options.decode import OutputLayerOptions
from sharpbeam.report.quality import quality

SETTINGS = ((1, 1), (2, 20))  # beam size, sentences in a batch
RAW = {"raw": True}  # a line is one sentence
STREAM = ("FIXED", "VAR-BATCH", "VAR-STREAM", "VAR-STR-FIFO", "STREAM")
ROWS, BEAMS = 500, (5, 50)  # hypotheses in memory, beam sizes


def compared(
    runs: dict[str, Callable[[], list[Translation]]], baseline: str, references: list[str], rounds: int
) -> dict[str, Any]:
    """Time, tokens per second and BLEU of each contender, and the share of its texts that are the baseline's."""
    answers: dict[str, list[Translation]] = {}
    timings = interleave(runs, baseline, rounds, answers.update, time.perf_counter)
    figures = {}
    for name, timing in timings.items():
        texts, base = ([t.text for t in answers[one]] for one in (name, baseline))
        count = sum(len(t.hypotheses[0].tokens) for t in answers[name])
        figures[name] = {
            "s": round(timing.median_s, 3),
            "tokens_s": round(count / timing.median_s, 1),
            "ratio": [round(value, 3) for value in (timing.ratio, timing.least_ratio, timing.most_ratio)],
            "bleu": round(quality(texts, references).bleu, 2),
            "same": round(sum(a == b for a, b in zip(texts, base, strict=True)) / len(texts), 4),
        }
    return {"baseline": baseline, "contenders": figures}


def layers(translator: Translator) -> list[str]:
    """The output layers to compare: all tokens, and the union of a screen if the model has one."""
    try:
        translator.loaded.layer_named("screen", OutputLayerOptions("screen", screen_sets="union"))
    except ModelError:
        return ["exact"]
    return ["exact", "screen-union"]


def kind_of(translator: Translator) -> str:
    """A mixture of experts, or dense."""
    config = translator.loaded.config
    return "experts" if isinstance(config, TransformerConfig) and config.experts else "dense"


def main(
    data: Data = DATA,
    model: Model = "build/bench/firefox/avx2/enpt",
    set_: Annotated[str, typer.Option("--set", help="test set")] = "ntrex-en-pt",
    device: Annotated[str, typer.Option(help="cuda, or cpu to try this out")] = "cuda",
    compute_type: Annotated[str, typer.Option(help="number type on the GPU")] = "auto",
    sentences: Annotated[int, typer.Option(help="of the test set, at equal distances", min=1)] = 400,
    rounds: Annotated[int, typer.Option(help="interleaved rounds")] = 3,
    quick: Annotated[bool, typer.Option(help="6 sentences, beams of 4, one round")] = False,
) -> None:
    """Measure, print and record."""
    on, called = device_of(device)
    name: Any = "cuda" if on.type == "cuda" else "torch-cpu"
    number_type: Any = compute_type
    translator = Translator(model, device=name, compute_type=number_type)
    sources, references = test_pairs(data, 6 if quick else sentences, set_)
    rounds = 1 if quick else rounds
    shared = {"device": called, "model": translator.loaded.folder.name, "kind": kind_of(translator)}

    def report(figures: dict[str, Any], **options: Any) -> None:
        wait(on)
        if on.type == "cuda":
            figures["peak_bytes"] = torch.cuda.max_memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            sizes = {"sentences": len(sources), "compute_type": translator.loaded.machine.compute_type}
            record.write("gpu", figures, threads=1, options=shared | options | sizes)
        for one, one_figures in figures["contenders"].items():
            print(f"{options} {one}: {one_figures}")

    for beam_size, batch in SETTINGS:
        runs: dict[str, Callable[[], list[Translation]]] = {
            layer: Contender(translator, sources, RAW | WHOLE | {"beam_size": beam_size, **layer_options(layer)}, batch)
            for layer in layers(translator)
        }
        report(compared(runs, "exact", references, rounds), part="end_to_end", beam=beam_size, batch=batch)
    for beam in (4,) if quick else BEAMS:
        streams: dict[str, Callable[[], list[Translation]]] = {
            one: Contender(translator, sources, RAW | options, at_once)
            for one, (options, at_once) in strategies(beam, ROWS).items()
            if one in STREAM
        }
        report(compared(streams, BASELINE, references, rounds), part="stream", beam=beam)
