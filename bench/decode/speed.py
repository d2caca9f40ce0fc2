"""Words per second on one thread, native f32 against the PyTorch twin in one interleaved run.

Both contenders share vocabulary, search, schedule and output layer; the model is what differs. Outputs are compared
first: no time is printed when they disagree.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from bench.flags import Data, Model, Rounds, Sentences
from bench.harness import record
from bench.harness.interleave import interleave
from bench.harness.testset import DATA, german_english
from sharpbeam import MachineOptions, Translator
from sharpbeam.report.quality import quality

BEAM = 5
EQUAL_SHARE = 0.98  # of the translations; the rest are near ties, where float rounding may choose another word
BLEU_DISTANCE = 0.3
ALL_TOGETHER = 1 << 30  # batch_tokens: whatever is given at once is one batch


class DisagreementError(Exception):
    """Contenders do not say the same, so their times mean nothing."""


def speed(model: str, data: str, batch: int, sentences: int, rounds: int) -> dict[str, Any]:
    """Time `batch` sentences at a time, beam 5, one thread; returns and records words/s, ratios and BLEU."""
    torch.set_num_threads(1)
    sources, references = german_english(data, sentences)
    translators = {b: Translator(model, machine=MachineOptions(backend=b)) for b in ("torch", "native")}
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))  # similar lengths together, for both
    batches = [order[start : start + batch] for start in range(0, len(order), batch)]

    def contender(translator: Translator) -> Callable[[], list[str]]:
        def run() -> list[str]:
            texts = [""] * len(sources)
            for indices in batches:
                part = [sources[i] for i in indices]
                for i, answer in zip(
                    indices, translator.translate(part, beam_size=BEAM, batch_tokens=ALL_TOGETHER), strict=True
                ):
                    texts[i] = answer.text
            return texts

        return run

    scores: dict[str, Any] = {}

    def check(outputs: dict[str, list[str]]) -> None:
        same = sum(a == b for a, b in zip(outputs["torch"], outputs["native"], strict=True)) / len(sources)
        scores["same_translations"] = round(same, 4)
        scores["bleu"] = {name: round(quality(texts, references).bleu, 2) for name, texts in outputs.items()}
        if same < EQUAL_SHARE or abs(scores["bleu"]["torch"] - scores["bleu"]["native"]) > BLEU_DISTANCE:
            raise DisagreementError(f"native and torch disagree: {scores}")

    timings = interleave({n: contender(t) for n, t in translators.items()}, "torch", rounds, check)
    words = sum(len(source.split()) for source in sources)
    figures = scores | {
        "baseline": "torch",
        "contenders": {
            name: {k: round(v, 4) for k, v in dataclasses.asdict(timing).items()}
            | {"words_per_second": round(words / timing.median_s, 1)}
            for name, timing in timings.items()
        },
    }
    options = {"model": model, "beam_size": BEAM, "batch": batch, "sentences": len(sources), "rounds": rounds}
    return record.write("decode", figures, threads=1, options=options)


def describe(line: dict[str, Any]) -> str:
    """One measurement of `speed`, for people."""
    options, contenders = line["options"], line["contenders"]
    each = "; ".join(
        f"{name} {figures['words_per_second']:.0f} words/s (x{figures['ratio']:.2f}, "
        f"{figures['least_ratio']:.2f}-{figures['most_ratio']:.2f}; BLEU {line['bleu'][name]:.2f})"
        for name, figures in contenders.items()
    )
    return f"batch {options['batch']}, beam {options['beam_size']}, {options['sentences']} sentences: {each}"


def main(data: Data = DATA, model: Model = "de-en", sentences: Sentences = 320, rounds: Rounds = 5) -> None:
    """Measure, print and record."""
    for batch in (1, 32):
        line = speed(model, data, batch, sentences, rounds)
        print(describe(line), flush=True)
