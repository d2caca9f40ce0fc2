"""Our exact layers against the float32 one: differences over many hidden vectors, and time at one and at five rows.

No time is recorded where one of them is wrong: the differences are counted first.

`python -m bench contract.proven` counts the differences of every model that is there, and takes no time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.baselines.full_softmax import FullSoftmaxLayer
from bench.flags import Data, Models
from bench.harness import record
from bench.harness.interleave import interleave
from bench.harness.testset import DATA
from bench.harness.vectors import Layer, collect_layer
from bench.papers.l2s.methods import BASELINE, PREVIEWED
from bench.papers.l2s.subjects import MODELS, SUBJECTS, find_folder, present
from sharpbeam.fit.preview import find_preview
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.output_layers.preview import PreviewLayer
from sharpbeam.output_layers.scan import ScanLayer
from sharpbeam.types import Floats

VECTORS, QUICK_VECTORS = 100_000, 5_000
HARD = 1_000  # adversarial vectors of each kind
TOPS = (5, 10)
ROUNDS, CALLS = 7, 100
TOTALS = 500  # vectors whose log-sum-exp is looked at
BLOCK = 1_000


def held_out(layer: Layer, count: int) -> Floats:
    """Vectors on which no preview was fitted."""
    rest = layer.fit.hidden[PREVIEWED:]
    return np.concatenate([layer.test.hidden, layer.choose.hidden, rest])[:count]


def hard(layer: Layer) -> dict[str, tuple[Floats, Floats, Floats]]:
    """Weight, bias and vectors that are hard on bounds."""
    draw = np.random.default_rng(1)
    weight, bias, real = layer.weight, layer.bias, layer.test.hidden[:HARD]
    noise = draw.normal(0, real.std(), real.shape).astype(np.float32)
    twins = np.resize(weight[: len(weight) // 4 + 1], weight.shape)
    return {
        "random": (weight, bias, noise),
        "times 100": (weight, bias, real * np.float32(100)),
        "ties": (twins, np.zeros_like(bias), real),
        "zero": (weight, bias, np.zeros_like(real)),
    }


def differences(exact: RowLayer, others: dict[str, RowLayer], hidden: Floats) -> dict[str, int]:
    """Rows whose k best words differ, for any of `TOPS`, of each of `others`."""
    wrong = dict.fromkeys(others, 0)
    for first in range(0, len(hidden), BLOCK):
        rows = hidden[first : first + BLOCK]
        expected = exact.topk(rows, max(TOPS)).token  # the k best are the first k of more
        for name, other in others.items():
            miss = np.zeros(len(rows), np.bool_)
            for k in TOPS:
                miss |= (expected[:, :k] != other.topk(rows, k).token).any(axis=1)
            wrong[name] += int(miss.sum())
    return wrong


def measure(layer: Layer, quick: bool, timed: bool = True) -> dict[str, Any]:
    """Differences, times and the error of the log-sum-exp of one layer, recorded."""
    weight, bias = layer.weight, layer.bias
    preview = find_preview(weight, bias, layer.fit.hidden[:PREVIEWED])
    exact, previewed = ExactLayer.build(weight, bias), PreviewLayer.build(weight, bias, preview)
    scan = ScanLayer.build(weight, bias)
    hidden = held_out(layer, QUICK_VECTORS if quick else VECTORS)
    # By their logits: a rounded difference to a normalizer may be equal for two words where logits are not.
    raw, bare = exact.unnormalized(), previewed.unnormalized()
    wrong = differences(raw, {"preview": bare, "scan": scan.unnormalized()}, hidden)
    for name, (w, b, rows) in hard(layer).items():
        one = ExactLayer.build(w, b).unnormalized()
        other = ScanLayer.build(w, b).unnormalized()
        wrong |= differences(one, {f"scan, {name}": other}, rows)
    figures: dict[str, Any] = {"vectors": len(hidden), "tops": TOPS, "differences": wrong}
    if timed and not any(wrong.values()):
        layers = {
            BASELINE: FullSoftmaxLayer.build(weight, bias),
            "exact": exact,
            "scan": scan,
            "preview": bare,
            "preview, normalized": previewed,
        }
        figures["times"] = {str(rows): _times(layers, layer.test.hidden, rows) for rows in (1, 5)}
    some = hidden[:TOTALS]
    off = previewed.topk(some, 1).log_prob - exact.topk(some, 1).log_prob  # the logits are the same
    figures["normalizer"] = {"mean": float(np.abs(off).mean()), "largest": float(np.abs(off).max())}
    vocab, width = weight.shape
    figures["codes"] = len(preview.lengths)
    options = {"model": layer.name, "vocab": vocab, "width": width, "quick": quick}
    return record.write("proven", figures, threads=1, options=options)


def _times(layers: dict[str, RowLayer], hidden: Floats, rows: int) -> dict[str, Any]:
    """Microseconds a call of `rows` rows, and ratios against the baseline and against scan."""
    calls = max(5, min(CALLS, 20_000_000 // layers["exact"].vocab_size // hidden.shape[1] * 5))
    batches = [np.ascontiguousarray(hidden[i * rows : (i + 1) * rows]) for i in range(calls)]

    def contender(layer: RowLayer) -> Callable[[], None]:
        def run() -> None:
            for batch in batches:
                layer.topk(batch, TOPS[0])

        return run

    timings = interleave({n: contender(one) for n, one in layers.items()}, "scan", ROUNDS, lambda _: None)
    return {
        name: {
            "us": round(1e6 * timing.median_s / calls, 2),
            "over_scan": round(timing.ratio, 3),
            "least": round(timing.least_ratio, 3),
            "most": round(timing.most_ratio, 3),
        }
        for name, timing in timings.items()
    }


def main(data: Data = DATA, models: Models = list(MODELS)) -> None:
    """Measure, print and record."""
    for subject in (present(one, models) for one in SUBJECTS):
        folder = find_folder(subject, models)
        if folder is not None:
            line = measure(collect_layer(subject, folder, data), quick=False, timed=False)
            print(f"{subject.name}: differences in {line['vectors']} vectors: {line['differences']}", flush=True)
