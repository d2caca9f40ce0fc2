"""Clusters of CVP as published, on one direction: plain k-means, plain unions, a softmax over the set (Figures 3, 4).

The set of a cluster is the union of its members' best K tokens, K = 1, 3, 5, for 100 to 2,000 centroids; tokens outside
have probability zero, and no row falls back. For each: the largest share of the vocabulary that is active, which the
paper draws, and the average one; precision on held-out steps; BLEU and identical outputs of beam search. Then the union
of a step (CVP section 2.3): the time of a call for 20 requests with beams of 2, against the exact layer, in float32.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Annotated, Any

import numpy as np
import typer

from bench.flags import Data, Models, Rounds, Sentences
from bench.harness import record
from bench.harness.doses import DOSES, TEST, Amounts, Dosed, TestPairs, Text, collect_dosed
from bench.harness.interleave import interleave
from bench.harness.parts import with_parts
from bench.harness.seen import Recorder
from bench.harness.testset import DATA
from bench.harness.vectors import Layer, collect_layer
from bench.harness.with_screen import against, texts, with_screen
from bench.papers.l2s.screens import hits, screen_with
from bench.papers.l2s.subjects import MODELS, folder_of, named
from sharpbeam import Translator
from sharpbeam.fit.screen.clusters import Tally, assign, kmeans
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.output_layers.scan import ScanLayer
from sharpbeam.output_layers.screen import Screen, ScreenLayer, ScreenUnionLayer
from sharpbeam.types import Floats, TopK

CENTROIDS = (100, 200, 400, 1000, 2000)
BEST = (1, 3, 5)
BATCH, BEAM = 20, 2  # of the paper's table 1
TOP = 2 * BEAM  # tokens that such a search asks for


def clustered(layer: Layer, centroids: int, best: Sequence[int] = BEST) -> dict[int, Screen]:
    """The published screens of one clustering, by K."""
    weight, bias = kmeans(layer.fit.hidden, centroids, 1)
    tallies = {k: Tally(weight, bias, len(layer.bias), k) for k in best}
    for tally in tallies.values():
        tally.add(layer.fit.hidden, layer.fit.top)
    return {k: screen_with(tally, layer.eos_id) for k, tally in tallies.items()}


def sweep(
    translator: Translator, layer: Layer, centroids: int, pairs: Sequence[tuple[str, str]], exact: Sequence[str]
) -> dict[str, Any]:
    """One number of centroids, each K, recorded."""
    options = {"model": layer.name, "centroids": centroids, "sentences": len(pairs), "fitted_on": len(layer.fit)}
    if earlier := record.find("cvp_clusters", options):
        return earlier
    screens = clustered(layer, centroids)
    points = {str(k): point(translator, layer, screen, pairs, exact) for k, screen in screens.items()}
    return record.write("cvp_clusters", {"best": points}, threads=1, options=options)


def point(
    translator: Translator, layer: Layer, screen: Screen, pairs: Sequence[tuple[str, str]], exact: Sequence[str]
) -> dict[str, Any]:
    """Figures of one screen: how much is active, precision, BLEU and identical outputs."""
    alone, vocab = hits(screen, layer.test, len(layer.bias)), len(layer.bias)
    with with_screen(translator.loaded.folder, screen, layer.weight, layer.bias) as screened:
        quality = against(exact, texts(screened, pairs, "screen-alone", 5), pairs)
    return quality | {
        "most_active": round(int(np.diff(screen.start).max()) / vocab, 5),
        "active": round(alone.average_set / vocab, 5),
        "p_at_1": round(alone.p_at_1, 5),
        "p_at_5": round(alone.p_at_5, 5),
    }


def doses(
    translator: Translator, dosed: Dosed, centroids: int, vectors: Sequence[int], exact: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """One number of centroids at each number of vectors: a line of each K, recorded."""
    layer = dosed.layer
    weight, bias = kmeans(layer.fit.hidden, centroids, 1)
    tallies = [(Tally(weight, bias, len(layer.bias), k), {"centroids": centroids, "k": k}) for k in BEST]

    def measure(tally: Tally, options: dict[str, Any]) -> dict[str, Any]:
        screen = screen_with(tally, layer.eos_id)
        return {"best": {str(options["k"]): point(translator, layer, screen, dosed.pairs, exact)}}

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


def union(layer: Layer, batches: list[Floats], centroids: int, rounds: int) -> dict[str, Any]:
    """Time of a call for a whole step, recorded: exact, scan, a set for each row, and the union, for each K."""
    weight, bias, vocab = layer.weight, layer.bias, len(layer.bias)
    layers: dict[str, RowLayer] = {
        "exact": ExactLayer.build(weight, bias),
        "scan": ScanLayer.build(weight, bias),
    }
    active, most = {}, {}
    for k, screen in clustered(layer, centroids).items():
        layers[f"union, K = {k}"] = ScreenUnionLayer(weight, bias, screen)
        layers[f"own sets in float32, K = {k}"] = ScreenLayer.build(weight, bias, screen, int8=False)
        layers[f"own sets, K = {k}"] = ScreenLayer.build(weight, bias, screen)
        sizes = [_union_size(screen, rows) for rows in batches]
        active[str(k)], most[str(k)] = round(float(np.mean(sizes)) / vocab, 5), round(max(sizes) / vocab, 5)

    def run(one: RowLayer) -> Callable[[], list[TopK]]:
        return lambda: [one.topk(rows, TOP) for rows in batches]

    right: dict[str, float] = {}

    def check(outputs: dict[str, list[TopK]]) -> None:
        best = np.concatenate([top.token[:, 0] for top in outputs["exact"]])
        for name, tops in outputs.items():
            right[name] = round(float((np.concatenate([top.token[:, 0] for top in tops]) == best).mean()), 5)
        assert right["scan"] == 1.0, "the scan is not the exact layer"

    timings = interleave({name: run(one) for name, one in layers.items()}, "exact", rounds, check, time.process_time)
    figures = {
        name: {
            "us": round(1e6 * t.median_s / len(batches), 1),
            **t.ratios(),
            "p_at_1": right[name],
        }
        for name, t in timings.items()
    }
    options = {"model": layer.name, "centroids": centroids, "rows": BATCH * BEAM, "rounds": rounds}
    line = {"baseline": "exact", "calls": figures, "active": active, "most_active": most}
    return record.write("cvp_union", line, threads=1, options=options)


def _union_size(screen: Screen, rows: Floats) -> int:
    sets = [screen.token[screen.start[t] : screen.start[t + 1]] for t in assign(rows, screen.weight, screen.bias)]
    return len(np.unique(np.concatenate(sets)))


def describe(line: dict[str, Any]) -> str:
    """One line, for people."""
    options = line["options"]
    rows = [f"{options['model']}, {options['centroids']} centroids, {options.get('fitted_on', '-')} vectors"]
    for k, p in line.get("best", {}).items():
        rows.append(
            f"  K = {k}: {p['most_active']:.2%} active at most, {p['active']:.2%} on average; P@1 {p['p_at_1']:.4f}, "
            f"P@5 {p['p_at_5']:.4f}; BLEU {p['screen']:.2f} ({p['difference']:+.2f}), {p['identical']:.1%} identical"
        )
    for name, p in line.get("calls", {}).items():
        rows.append(
            f"  {name:<28} {p['us']:9.1f} us  x{p['ratio']:.2f} ({p['least_ratio']:.2f}-{p['most_ratio']:.2f})  "
            f"best token right in {p['p_at_1']:.2%}"
        )
    return "\n".join(rows)


def main(
    data: Data = DATA,
    models: Models = list(MODELS),
    model: Annotated[str, typer.Option(help="a translation model among the subjects of L2S")] = "de-en",
    centroids: list[int] = list(CENTROIDS),
    sentences: Sentences = 500,
    share: Annotated[float, typer.Option(help="of the usual number of vectors to fit on")] = 0.5,
    rounds: Rounds = 7,
    text: Text = "",
    vectors: Amounts = list(DOSES),
    test: TestPairs = TEST,
) -> None:
    """Measure, print and record; what this commit has recorded is not measured again."""
    if text:
        dosed = collect_dosed(folder_of(model, models), text, data, test, sentences)
        translator = Translator(folder_of(model, models))
        exact = texts(translator, dosed.pairs, "exact", 5)
        for line in chain.from_iterable(doses(translator, dosed, number, vectors, exact) for number in centroids):
            print(describe(line), flush=True)
        return
    subject, folder = named(model, models)
    layer, translator = collect_layer(subject, folder, data, share), Translator(folder)
    pairs = subject.pairs(data, "test", sentences)
    exact = texts(translator, pairs, "exact", 5)
    for number in centroids:
        print(describe(sweep(translator, layer, number, pairs, exact)), flush=True)
    batches = steps(translator, pairs)
    for number in (min(centroids, key=lambda c: abs(c - 400)), max(centroids)):
        print(describe(union(layer, batches, number, rounds)), flush=True)
