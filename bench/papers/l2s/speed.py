"""Time of one output layer call: NumPy, exact f32, int8 scan, proven; real hidden vectors, one thread, interleaved.

The answers are compared first: no time is printed where an output layer's k best are not the exact layer's. Hidden
vectors are those of greedy translations of the Tatoeba test set; the preview is fitted on half of the sentences, and
the other half is timed.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.flags import Data, Model, Rounds
from bench.harness import record
from bench.harness.interleave import interleave
from bench.harness.testset import DATA, german_english
from sharpbeam import Translator
from sharpbeam.fit.low_bit import fit_low_bit
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.output_layers.proven import ProvenLayer
from sharpbeam.output_layers.scan import ScanLayer
from sharpbeam.types import Floats, Ids, TopK

CALLS = 200  # a round times so many, each of other rows


class DisagreementError(Exception):
    """An output layer's k best are not the exact layer's, so its time means nothing."""


class Recorder(RowLayer):
    """An output layer that keeps the hidden vectors that it is asked for."""

    def __init__(self, output_layer: RowLayer) -> None:
        self._output_layer = output_layer
        self.vocab_size = output_layer.vocab_size
        self.seen: list[Floats] = []

    def topk(self, hidden: Floats, k: int) -> TopK:
        self.seen.append(hidden.copy())
        return self._output_layer.topk(hidden, k)

    def log_prob(self, hidden: Floats, token: Ids) -> Floats:
        return self._output_layer.log_prob(hidden, token)


def hidden_vectors(translator: Translator, sources: list[str]) -> Floats:
    """The hidden vectors [N, D] of greedy translations."""
    parts = translator.loaded
    recorder = Recorder(parts.exact)
    translator.loaded = dataclasses.replace(parts, exact=recorder)
    try:
        translator.translate(sources, beam_size=1)
    finally:
        translator.loaded = parts
    return np.concatenate(recorder.seen)


def numpy_topk(weight: Floats, bias: Floats, hidden: Floats, k: int) -> Ids:
    """The papers' baseline: full softmax, then the k best."""
    logits = hidden @ weight.T + bias
    logits -= np.log(np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True))
    best = np.argpartition(-logits, k, axis=1)[:, :k]
    order = np.argsort(-np.take_along_axis(logits, best, axis=1), axis=1)
    return np.take_along_axis(best, order, axis=1).astype(np.int32)


def measure(model: str, data: str, k: int, rows: int, rounds: int) -> dict[str, Any]:
    """Time calls of `rows` rows; returns and records microseconds a call, ratios, and words left."""
    translator = Translator(model)
    sources, _ = german_english(data, 2000)
    weight, bias = translator.loaded.model.output()
    samples = hidden_vectors(translator, sources[::2])
    hidden = hidden_vectors(translator, sources[1::2])
    preview = fit_low_bit(weight, bias, samples)
    scan, proven = ScanLayer.build(weight, bias), ProvenLayer.build(weight, bias, preview)
    layers: dict[str, RowLayer] = {
        "exact": ExactLayer.build(weight, bias),
        "scan": scan,
        "proven": proven.unnormalised(),
    }
    pick = np.random.default_rng(0).integers(0, len(hidden), (CALLS, rows))
    batches = [np.ascontiguousarray(hidden[index]) for index in pick]

    def contender(output_layer: RowLayer) -> Callable[[], list[Ids]]:
        return lambda: [output_layer.topk(batch, k).token for batch in batches]

    contenders = {name: contender(output_layer) for name, output_layer in layers.items()}
    contenders["numpy"] = lambda: [numpy_topk(weight, bias, batch, k) for batch in batches]

    def check(outputs: dict[str, list[Ids]]) -> None:
        exact = np.concatenate(outputs["exact"])
        for name in ("scan", "proven"):
            wrong = int((np.concatenate(outputs[name]) != exact).any(axis=1).sum())
            if wrong:
                raise DisagreementError(f"{name}: {wrong} of {len(exact)} rows are not the exact layer's {k} best")

    timings = interleave(contenders, "numpy", rounds, check)
    asked = np.concatenate(batches)
    figures = {
        "baseline": "numpy",
        "contenders": {
            name: {"us_per_call": round(timing.median_s / CALLS * 1e6, 2), "ratio": round(timing.ratio, 2)}
            for name, timing in timings.items()
        },
        "exact_logits_of_scan": float(scan.rescored(asked, k).mean()),
    }
    shape = {"vocab": len(weight), "width": weight.shape[1], "coordinates": float(preview.coordinates.mean())}
    return record.write("output_layer", figures, threads=1, options={"model": model, "k": k, "rows": rows, **shape})


def main(model: Model = "de-en", data: Data = DATA, k: int = 5, rounds: Rounds = 15) -> None:
    """Measure, print and record."""
    for rows in (1, 5):
        line = measure(model, data, k, rows, rounds)
        print(json.dumps(line, indent=2))
