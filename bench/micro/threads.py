"""Two threads against one: for one sentence at a time, and for many; the answers must be the same bytes.

Random weights of a shape (`--shape opus-6+6`) for one sentence, next to CTranslate2 on the same weights; a trained
model on Tatoeba for many. Contenders alternate, ratios are against one thread of the same engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from bench.decode import peers
from bench.engines import run as engines
from bench.flags import Data, Model, Rounds, Sentences
from bench.harness import record
from bench.harness.interleave import interleave
from bench.harness.testset import DATA, test_pairs
from bench.papers.l2s import shapes
from sharpbeam import Translator

COUNTS = (1, 2)
Answers = list[list[str]]


def one_by_one(translator: Translator, texts: list[str], **options: Any) -> Callable[[], Answers]:
    """Ours, a sentence a call."""
    return lambda: [list(translator.translate([text], **options)[0].tokens) for text in texts]


def together(translator: Translator, texts: list[str], **options: Any) -> Callable[[], Answers]:
    """Ours, all sentences in one call."""
    return lambda: [list(answer.tokens) for answer in translator.translate(texts, **options)]


def measure(contenders: dict[str, Callable[[], Answers]], same: bool, rounds: int, **options: Any) -> dict[str, Any]:
    """Seconds and ratios by number of threads, recorded; with `same`, answers that depend on it are an error."""

    def check(outputs: dict[str, Answers]) -> None:
        if same and any(answers != outputs["1"] for answers in outputs.values()):
            raise peers.DisagreementError("the answers depend on the number of threads.")

    timings = interleave(contenders, "1", rounds, check)
    figures = {count: {"s": round(one.median_s, 4), **one.ratios()} for count, one in timings.items()}
    return record.write("threads", {"by_threads": figures}, threads=max(COUNTS), options=options | {"rounds": rounds})


def main(
    data: Data = DATA,
    model: Model = "de-en",
    shape: str = "opus-6+6",
    output_layer: str = "scan",
    beam: int = 5,
    sentences: Annotated[int, typer.Option(help="one at a time")] = 4,
    many: Sentences = 1000,
    rounds: Rounds = 9,
) -> None:
    """Check, time, print and record."""
    choices: dict[str, Any] = {"beam_size": beam, "output_layer": output_layer}
    fixed = choices | {"min_length": engines.LENGTH - 1, "max_length": engines.LENGTH}
    texts, sources = shapes.sources(shape, sentences, engines.LENGTH - 1), test_pairs(data, many)[0]
    ours = {n: Translator(shapes.model(shape), threads=n, compute_type="int8") for n in COUNTS}
    trained = {n: Translator(model, threads=n, compute_type="int8") for n in COUNTS}
    lone = {str(n): one_by_one(one, texts, **fixed) for n, one in ours.items()}
    crowd = {str(n): together(one, sources, **choices) for n, one in trained.items()}
    theirs: dict[str, Callable[[], Answers]] = {
        str(n): engines.ctranslate2(peers.task(shape, None, "", sentences, 1, beam, n), "int8", intra=n) for n in COUNTS
    }
    for engine, runs, options in (
        ("ours", lone, choices | {"shape": shape, "sentences": sentences}),
        ("CTranslate2", theirs, {"beam_size": beam, "shape": shape, "sentences": sentences}),
        ("ours", crowd, choices | {"model": model, "sentences": len(sources)}),
    ):
        line = measure(runs, engine == "ours", rounds, engine=engine, **options)
        print(engine, options, line["by_threads"], flush=True)
