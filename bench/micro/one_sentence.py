"""One sentence at a time with several threads, against one thread: ours, and CTranslate2 on the same weights.

Threads that have no sentence of their own share the products of the one that there is (`csrc/core/team.h`). Random
weights of a shape (`--shape opus-6+6`, `nllb-600m`), sources and answers of 32 tokens. First the answers for any
number of threads are held to be the same bytes; then the contenders alternate. Ratios are against one thread of
the same engine, medians and least over rounds.

    python -m bench micro.one_sentence --shape opus-6+6 --threads 2 --output-layer scan
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.decode import peers
from bench.engines import run as engines
from bench.flags import Rounds, Sentences
from bench.harness import record
from bench.harness.interleave import interleave
from bench.papers.l2s import shapes
from sharpbeam import Translator
from sharpbeam.options.decode import MachineOptions


def ours(shape: str, texts: list[str], threads: int, beam: int, output_layer: str) -> engines.Run:
    """Ours, sentence by sentence."""
    translator = Translator(shapes.model(shape), machine=MachineOptions(threads=threads, compute_type="int8"))
    options: dict[str, Any] = {"beam_size": beam, "output_layer": output_layer}
    options |= {"min_length": engines.LENGTH - 1, "max_length": engines.LENGTH}

    def run() -> list[list[str]]:
        return [list(translator.translate([text], **options)[0].tokens) for text in texts]

    return run


def measure(
    engine: str, shape: str, counts: Sequence[int], beam: int, output_layer: str, sentences: int, rounds: int
) -> dict[str, Any]:
    """One line: `engine` ("ours", "CTranslate2") with each number of threads; the first of `counts` is the baseline."""
    texts = shapes.sources(shape, sentences, engines.LENGTH - 1)
    contenders: dict[str, engines.Run] = {}
    for threads in counts:
        if engine == "ours":
            contenders[f"{threads}"] = ours(shape, texts, threads, beam, output_layer)
        else:
            job = peers.task(shape, None, "", sentences, 1, beam, threads)
            contenders[f"{threads}"] = engines.ctranslate2(job, "int8", intra=threads)

    def check(outputs: dict[str, list[list[str]]]) -> None:
        first = outputs[f"{counts[0]}"]
        if engine == "ours" and any(answers != first for answers in outputs.values()):
            raise peers.DisagreementError("the answers depend on the number of threads.")

    timings = interleave(contenders, f"{counts[0]}", rounds, check)
    figures = {
        threads: {
            "ratio": timing.ratio,
            "least_ratio": timing.least_ratio,
            "most_ratio": timing.most_ratio,
            "ms_per_sentence": timing.median_s / len(texts) * 1e3,
        }
        for threads, timing in timings.items()
    }
    options = {"shape": shape, "beam": beam, "engine": engine, "sentences": sentences, "rounds": rounds}
    options |= {"output_layer": output_layer} if engine == "ours" else {}
    return record.write("one_sentence", {"by_threads": figures}, threads=max(counts), options=options)


def describe(line: dict[str, Any]) -> str:
    """A line for each number of threads."""
    return "\n".join(
        f"{line['options']['engine']}, {threads} thread(s): {figure['ms_per_sentence']:.1f} ms a sentence, "
        f"x{figure['ratio']:.2f} ({figure['least_ratio']:.2f} to {figure['most_ratio']:.2f})"
        for threads, figure in line["by_threads"].items()
    )


def main(
    shape: str = "opus-6+6",
    threads: list[int] = [2],
    output_layer: str = "scan",
    beam: int = 5,
    sentences: Sentences = 4,
    rounds: Rounds = 9,
) -> None:
    """Check, time, print and record."""
    counts = [1, *threads]
    for engine in ("ours", "CTranslate2"):
        line = measure(engine, shape, counts, beam, output_layer, sentences, rounds)
        print(describe(line), flush=True)
