"""Clusters of CVP as published, on one direction: plain k-means, plain unions, a softmax over the set (Figures 3, 4).

The set of a cluster is the union of its members' best K tokens, K = 1, 3, 5, counted over vectors of beam search on a
text; tokens outside have probability zero, and no row falls back. For each: the largest share of the vocabulary that is
active, which the paper draws, and the average one; precision on held-out steps; BLEU and identical outputs of beam
search. The same for the union of a step (CVP section 2.3), with the time of a call for 20 requests with beams of 2,
against the exact layer, in float32.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import numpy as np
import typer

from bench.flags import Data, Models, Rounds, Sentences
from bench.harness.doses import DOSES, TEST, Amounts, Dosed, TestPairs, Text, collect_dosed
from bench.harness.interleave import interleave
from bench.harness.parts import with_parts
from bench.harness.seen import Recorder
from bench.harness.testset import DATA
from bench.harness.vectors import Layer
from bench.harness.with_screen import against, texts, with_screen
from bench.papers.l2s.screens import hits, screen_with
from bench.papers.l2s.subjects import MODELS, folder_of
from sharpbeam import Translator
from sharpbeam.fit.screen.clusters import Tally, kmeans
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.output_layers.screen import Screen, ScreenLayer, ScreenUnionLayer
from sharpbeam.types import Floats, TopK

CENTROIDS, BEST = 400, (1, 3, 5)
BATCH, BEAM = 20, 2  # of the paper's table 1
TOP = 2 * BEAM  # tokens that such a search asks for


def point(
    translator: Translator, layer: Layer, screen: Screen, pairs: Sequence[tuple[str, str]], exact: Sequence[str]
) -> dict[str, Any]:
    """Figures of one screen: how much is active, precision, BLEU and identical outputs, also of the union."""
    alone, vocab = hits(screen, layer.test, len(layer.bias)), len(layer.bias)
    with with_screen(translator.loaded.folder, screen, layer.weight, layer.bias) as screened:
        own, union = (against(exact, texts(screened, pairs, f"screen-{sets}", 5), pairs) for sets in ("alone", "union"))
    return own | {
        "most_active": round(int(np.diff(screen.start).max()) / vocab, 5),
        "active": round(alone.average_set / vocab, 5),
        "p_at_1": round(alone.p_at_1, 5),
        "p_at_5": round(alone.p_at_5, 5),
        "union": union,
    }


def doses(
    translator: Translator, dosed: Dosed, centroids: int, vectors: Sequence[int], exact: Sequence[str], rounds: int
) -> Iterator[dict[str, Any]]:
    """One number of centroids at each number of vectors: a line of each K, recorded."""
    layer, batches = dosed.layer, steps(translator, dosed.pairs)
    weight, bias = kmeans(layer.fit.hidden, centroids, 1)
    tallies = [(Tally(weight, bias, len(layer.bias), k), {"centroids": centroids, "k": k}) for k in BEST]

    def measure(tally: Tally, options: dict[str, Any]) -> dict[str, Any]:
        screen = screen_with(tally, layer.eos_id)
        best = {str(options["k"]): point(translator, layer, screen, dosed.pairs, exact)}
        return {"best": best, "baseline": "exact", "calls": calls(layer, screen, batches, rounds)}

    for number in sorted(vectors):
        yield from dosed.lines("cvp_doses", tallies, number, measure)


def steps(translator: Translator, pairs: Sequence[tuple[str, str]]) -> list[Floats]:
    """The hidden vectors of each step of BATCH requests with beams of BEAM, while all are in flight."""
    recorder = Recorder(translator.loaded.exact)
    with with_parts(translator, exact=recorder):
        for first in range(0, len(pairs) - BATCH + 1, BATCH):
            sources = [source for source, _ in pairs[first : first + BATCH]]
            translator.translate(sources, beam_size=BEAM, batch_tokens=1 << 20, output_layer="exact")
    return [rows for rows in recorder.seen if len(rows) == BATCH * BEAM]


def calls(layer: Layer, screen: Screen, batches: list[Floats], rounds: int) -> dict[str, dict[str, float]]:
    """Time of a call for a whole step, and how often its best token is right: exact, the union, a set for each row."""
    weight, bias = layer.weight, layer.bias
    layers: dict[str, RowLayer] = {
        "exact": ExactLayer.build(weight, bias),
        "union": ScreenUnionLayer(weight, bias, screen),
        "own sets in float32": ScreenLayer.build(weight, bias, screen, int8=False),
    }
    right: dict[str, float] = {}

    def run(one: RowLayer) -> Callable[[], list[TopK]]:
        return lambda: [one.topk(rows, TOP) for rows in batches]

    def check(outputs: dict[str, list[TopK]]) -> None:
        best = np.concatenate([top.token[:, 0] for top in outputs["exact"]])
        for name, tops in outputs.items():
            right[name] = round(float((np.concatenate([top.token[:, 0] for top in tops]) == best).mean()), 5)
        assert right["union"] >= right["own sets in float32"], "a union has lost what is in its sets"

    timings = interleave({name: run(one) for name, one in layers.items()}, "exact", rounds, check, time.process_time)
    return {
        name: {"us": round(1e6 * t.median_s / len(batches), 1), **t.ratios(), "p_at_1": right[name]}
        for name, t in timings.items()
    }


def describe(line: dict[str, Any]) -> str:
    """One line, for people."""
    options = line["options"]
    rows = [f"{options['model']}, {options['centroids']} centroids, {line['vectors']:,} vectors"]
    for k, p in line["best"].items():
        rows.append(
            f"  K = {k}: {p['most_active']:.2%} active at most, {p['active']:.2%} on average; P@1 {p['p_at_1']:.4f}, "
            f"P@5 {p['p_at_5']:.4f}; BLEU {p['screen']:.2f} ({p['difference']:+.2f}), {p['identical']:.1%} identical; "
            f"union {p['union']['difference']:+.2f}, {p['union']['identical']:.1%}"
        )
    for name, p in line["calls"].items():
        rows.append(
            f"  {name:<28} {p['us']:9.1f} us  x{p['ratio']:.2f} ({p['least_ratio']:.2f}-{p['most_ratio']:.2f})  "
            f"best token right in {p['p_at_1']:.2%}"
        )
    return "\n".join(rows)


def main(
    text: Text,
    model: Annotated[str, typer.Option(help="a translation model below `models`")] = "de-en",
    data: Data = DATA,
    models: Models = list(MODELS),
    centroids: list[int] = [CENTROIDS],
    sentences: Sentences = 2000,
    rounds: Rounds = 7,
    vectors: Amounts = list(DOSES),
    test: TestPairs = TEST,
) -> None:
    """Measure, print and record; what this commit has recorded is not measured again."""
    dosed = collect_dosed(folder_of(model, models), text, data, test, sentences)
    translator = Translator(folder_of(model, models))
    exact = texts(translator, dosed.pairs, "exact", 5)
    for number in centroids:
        for line in doses(translator, dosed, number, vectors, exact, rounds):
            print(describe(line), flush=True)
