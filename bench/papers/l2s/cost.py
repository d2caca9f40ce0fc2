"""Where a NumPy row's time goes: parts of the full softmax and of the methods of L2S, to explain their ratios.

Of each method one setting near the precision that the paper names; its parts are timed by themselves on the same rows,
in turns with the full softmax. A part that cannot be left out is a floor: no setting of the method is faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.baselines.candidates import exact_logits, largest, log_sum_exp
from bench.baselines.fgd import FgdLayer
from bench.baselines.full_softmax import FullSoftmaxLayer
from bench.baselines.greedy_mips import GreedyMipsLayer
from bench.baselines.screen_numpy import ScreenNumpyLayer
from bench.baselines.svd_softmax import SvdSoftmaxLayer
from bench.harness import record
from bench.harness.interleave import interleave
from bench.harness.vectors import K, Layer
from bench.papers.l2s.methods import TopKLayer
from bench.papers.l2s.screens import cluster, screen_at
from sharpbeam.output_layers.screen import Screen
from sharpbeam.types import Floats

ROWS = 50
BASELINE = "full softmax"
CLUSTERS, SET, SEARCHED, RANK = 100, 400, 160, 20
BUDGETS = (0.1, 0.2)  # of Greedy-MIPS, as shares of the vocabulary
Row = Callable[[Floats], object]


def parts(layer: Layer) -> dict[str, Row]:
    """Functions of one hidden vector [D] by name: whole methods, and with a comma what they consist of."""
    weight, bias = layer.weight, layer.bias
    logits = weight @ layer.test.hidden[0] + bias
    few = Screen(np.zeros_like(weight[:1]), bias[:1], np.array([0, K], np.int32), np.arange(K, dtype=np.int32))
    screen = screen_at(cluster(layer, "spherical", CLUSTERS, near=False), SET)
    graph = FgdLayer.build(weight, bias, links=32, searched=SEARCHED, kept=8 * K)
    low = SvdSoftmaxLayer.build(weight, bias, rank=RANK, rescored=1)
    rows: dict[str, Row] = {
        BASELINE: _top(FullSoftmaxLayer.build(weight, bias)),
        f"{BASELINE}, matmul": lambda h: weight @ h + bias,
        f"{BASELINE}, log-sum-exp": lambda h: log_sum_exp(logits),
        f"{BASELINE}, k best": lambda h: largest(logits, K),
        "screen": _top(ScreenNumpyLayer.build(weight, bias, screen=screen)),
        "screen, a call with next to nothing to do": _top(ScreenNumpyLayer.build(weight, bias, screen=few)),
        "screen, matmul of the clusters": lambda h: (screen.weight @ h + screen.bias).argmax(),
        "FGD": _top(graph),
        "FGD, walk": graph.candidates,
        f"all tokens at rank {RANK}": lambda h: log_sum_exp(low.previews(h)),
    }
    for share in BUDGETS:
        greedy = GreedyMipsLayer.build(weight, bias, budget=round(share * len(weight)))
        words = greedy.candidates(layer.test.hidden[0])
        rows[f"Greedy-MIPS {share:.0%}"] = _top(greedy)
        rows[f"Greedy-MIPS {share:.0%}, candidates"] = greedy.candidates
        rows[f"Greedy-MIPS {share:.0%}, their logits"] = lambda h, words=words: exact_logits(weight, bias, words, h)  # type: ignore[misc]
    return rows


def _top(layer: TopKLayer) -> Row:
    return lambda h: layer.topk(h[None], K)


def measure(layer: Layer, rounds: int) -> dict[str, Any]:
    """Microseconds a row of each part, and the ratio of the full softmax to it, recorded."""
    rows = list(layer.test.hidden[:ROWS])

    def over(run: Row) -> Callable[[], None]:
        def repeat() -> None:
            for h in rows:
                run(h)

        return repeat

    runs = {name: over(run) for name, run in parts(layer).items()}
    timings = interleave(runs, BASELINE, rounds, lambda _: None, time.process_time)
    figures = {
        name: {"us": round(1e6 * timing.median_s / len(rows), 2), "ratio": round(timing.ratio, 3)}
        for name, timing in timings.items()
    }
    options = {"model": layer.name, "clusters": CLUSTERS, "set": SET, "searched": SEARCHED, "rank": RANK}
    return record.write("l2s_cost", {"baseline": BASELINE, "parts": figures}, threads=1, options=options)
