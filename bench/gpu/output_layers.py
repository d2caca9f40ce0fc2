"""Output layers on a GPU against PyTorch's dense layer: matmul, softmax, top-k (CVP-3). Random weights.

* pytorch: float16 matmul and bias, log softmax in float32, top-k: what a user would write.
* fused: all tokens, without writing the logits.
* union: the union of the batch's sets, as published.

A set has `--active` of the tokens, and each row its own cluster at random; the default makes the union of 20 rows an
eighth of the tokens, as the paper's Figure 3 has it for 400 clusters. Answers are checked before they are timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import numpy as np
import torch
import typer
from torch import Tensor

from bench.gpu.device import device_of, wait
from bench.harness import record
from bench.harness.interleave import interleave
from sharpbeam.gpu.graphs import capture
from sharpbeam.gpu.layers import DeviceLayer, UnionLayer
from sharpbeam.gpu.plain import Best
from sharpbeam.gpu.vectors import Vectors
from sharpbeam.output_layers.screen import Screen

VOCABULARIES, ROWS = (24_000, 58_000, 128_000, 256_000), (1, 5, 40, 160, 640)
TOLERANCE = 0.06  # of logits in float16


def made_screen(vocab: int, width: int, clusters: int, active: float, draw: np.random.Generator) -> Screen:
    """Clusters at random places, with random sets."""
    centroid = draw.normal(size=(clusters, width)).astype(np.float32)
    sets = [np.unique(draw.integers(0, vocab, max(1, round(active * vocab)))) for _ in range(clusters)]
    start = np.cumsum([0, *map(len, sets)]).astype(np.int32)
    return Screen(centroid, -(centroid**2).sum(1) / 2, start, np.concatenate(sets).astype(np.int32))


def contenders(
    dense: DeviceLayer, screen: Screen, weight: Tensor, bias: Tensor, hidden: Tensor, k: int
) -> dict[str, Callable[[], Best]]:
    """Everything that is timed, by name."""
    low = bias.to(weight.dtype)

    def pytorch() -> Best:
        best = torch.topk(torch.log_softmax(torch.addmm(low, hidden, weight.T).float(), dim=1), k)
        return Best(best.values, best.indices, best.values[:, 0])

    layers = {"fused": dense, "union": UnionLayer(dense, screen)}
    timed: dict[str, Callable[[], Best]] = {"pytorch": pytorch}
    return timed | {name: partial(layer.best, hidden, k) for name, layer in layers.items()}


def check(answers: dict[str, Best], weight: Tensor, bias: Tensor, hidden: Tensor) -> None:
    """Every token's logit is its own, and the fused layer's best are PyTorch's; ValueError where not."""
    for name, best in answers.items():
        score = best.logit
        if name == "pytorch":
            continue
        truth = (weight[best.token.long()].float() * hidden.float()[:, None]).sum(2) + bias[best.token.long()]
        worst = float((truth - score)[torch.isfinite(score)].abs().max())
        if worst > TOLERANCE:
            raise ValueError(f"{name}: a logit is {worst} from its token's")
    own = answers["fused"].logit - answers["fused"].log_sum[:, None]
    worst = float((own - answers["pytorch"].logit).abs().max())
    if worst > TOLERANCE:
        raise ValueError(f"fused: a log probability is {worst} from PyTorch's")


def captured(run: Callable[[], Best], repeats: int, device: torch.device) -> Callable[[], Best]:
    """`repeats` runs, on a GPU as one CUDA graph, so that launches from Python are not what is timed."""

    def several() -> Best:
        return [run() for _ in range(repeats)][-1]

    if device.type != "cuda":
        return several
    result, again = capture(several)

    def replay() -> Best:
        again()
        wait(device)
        return result

    return replay


@torch.inference_mode()
def measure(
    vocab: int, rows: int, width: int, k: int, active: float, rounds: int, repeats: int, device: torch.device
) -> dict[str, Any]:
    """Time one shape: microseconds of each contender, and how much faster than PyTorch it is."""
    draw, dtype = np.random.default_rng(1), torch.float16 if device.type == "cuda" else torch.float32
    matrix = draw.standard_normal((vocab, width), np.float32) * np.float32(width**-0.5)
    zeros = draw.normal(size=vocab).astype(np.float32)
    screen = made_screen(vocab, width, min(400, vocab // 10), active, draw)
    chosen = screen.weight[draw.integers(0, len(screen.weight), rows)]
    hidden = torch.from_numpy((chosen + 0.1 * draw.normal(size=chosen.shape)).astype(np.float32)).to(device, dtype)
    dense = DeviceLayer(matrix, zeros, Vectors(device, dtype, width), device, dtype)
    weight, bias = torch.from_numpy(matrix).to(device, dtype), torch.from_numpy(zeros).to(device)
    runs = contenders(dense, screen, weight, bias, hidden, k)
    check({name: run() for name, run in runs.items()}, weight, bias, hidden)
    timed = {name: captured(run, repeats, device) for name, run in runs.items()}
    timings = interleave(timed, "pytorch", rounds, lambda _: None, time.perf_counter)
    union = UnionLayer(dense, screen).union(hidden)
    return {
        "union_share": round(int(union.count) / vocab, 4),
        "contenders": {
            name: {
                "us": round(1e6 * one.median_s / repeats, 2),
                "ratio": [round(value, 3) for value in (one.ratio, one.least_ratio, one.most_ratio)],
            }
            for name, one in timings.items()
        },
    }


def main(
    device: Annotated[str, typer.Option(help="cuda, or cpu to try this out")] = "cuda",
    width: Annotated[int, typer.Option(help="of hidden vectors")] = 1024,
    k: Annotated[int, typer.Option(help="candidates of a row: twice the beam size")] = 4,
    active: Annotated[float, typer.Option(help="share of the tokens in a set")] = 0.0065,
    rounds: Annotated[int, typer.Option(help="interleaved rounds")] = 7,
    repeats: Annotated[int, typer.Option(help="of each contender in a round")] = 20,
    quick: Annotated[bool, typer.Option(help="one small shape")] = False,
) -> None:
    """Measure every shape, print and record."""
    on, called = device_of(device)
    shapes = [(500, 5)] if quick else [(vocab, rows) for vocab in VOCABULARIES for rows in ROWS]
    for vocab, rows in shapes:
        figures = measure(vocab, rows, 32 if quick else width, k, active, rounds, repeats, on)
        options = {"part": "output_layers", "device": called, "vocab": vocab, "rows": rows, "k": k, "active": active}
        if on.type == "cuda":
            record.write("gpu", figures, threads=1, options=options | {"width": width, "weights": "random"})
        times = (f"{name} {one['us']} us x{one['ratio'][0]:.2f}" for name, one in figures["contenders"].items())
        print(f"{vocab} tokens, {rows} rows, union {figures['union_share']:.1%}: {', '.join(times)}")
