"""The published layer of L2S: learned clusters and sets, probability 0 outside of a set, no fallback (Tables 2, 4, 5).

For each number of clusters r the sets are learned to each budget, from the spherical k-means of the same r, and next
to each stands that start with sets of the same budget. Precision is on held-out vectors. Time is like for like, one row
at a time: a screen in NumPy next to the full softmax in NumPy, as in the paper, and the native layer (`screen-alone`)
in float32 next to the native exact one; "clusters alone" has K words in a set, which is what no learning can go below.
The sets are those of the paper: counts of a cluster's own members, no neighbors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import numpy as np
import typer

from bench.baselines.full_softmax import FullSoftmaxLayer
from bench.baselines.screen_numpy import ScreenNumpyLayer
from bench.flags import Data, Models, Sentences
from bench.harness import record
from bench.harness.doses import DOSES, TEST, Amounts, Dosed, TestPairs, Text, collect_dosed
from bench.harness.precision import measure
from bench.harness.testset import DATA
from bench.harness.vectors import K, Layer, collect_layer
from bench.harness.with_screen import against, texts, with_screen
from bench.papers.l2s import screened_search, seen
from bench.papers.l2s.methods import BASELINE, Contender
from bench.papers.l2s.screened_search import time_layers
from bench.papers.l2s.screens import Clusters, cluster, hits, screen_at, screen_with
from bench.papers.l2s.subjects import MODELS, folder_of, named
from sharpbeam import Translator
from sharpbeam.fit.screen.clusters import Tally
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.screen import Screen, ScreenLayer
from sharpbeam.text.lines import Pair

CLUSTERS = (50, 100, 200, 250)  # r of the paper's Table 4
BUDGETS = (100, 200, 300, 400)  # average tokens of a set
ROUNDS, SECONDS = 5, 1.0
NATIVE, ALONE, LAYER = "native", "clusters alone", "screen-alone"
TIMED = 60  # sentences whose translation is timed


def curve(layer: Layer, clusters: int, budgets: Sequence[int], rounds: int = ROUNDS) -> dict[str, Any]:
    """One number of clusters, recorded: L2S and its start at each budget, in NumPy and native."""
    options = {"model": layer.name, "clusters": clusters, "budgets": list(budgets), "fitted_on": len(layer.fit), "k": K}
    if earlier := record.find("published_screens", options):
        return earlier
    start = cluster(layer, "spherical", clusters, near=False)
    contenders = [Contender(BASELINE, {}, FullSoftmaxLayer.build(layer.weight, layer.bias))]
    contenders += [Contender("exact", {}, ExactLayer.build(layer.weight, layer.bias))]
    places, words = K * np.arange(clusters + 1, dtype=np.int32), np.tile(np.sort(layer.fit.top[0]), clusters)
    few = Screen(start.weight, start.bias, places, words)
    contenders += [Contender(ALONE, {}, ScreenNumpyLayer.build(layer.weight, layer.bias, screen=few))]
    contenders += [Contender(f"{ALONE}, {NATIVE}", {}, ScreenLayer.build(layer.weight, layer.bias, few, int8=False))]
    for budget in budgets:
        for fitted in (start, cluster(layer, "l2s", clusters, budget, near=False)):
            contenders += _contenders(layer, fitted, budget)
    points = measure(contenders, layer.test, rounds, SECONDS)
    return record.write("published_screens", {"baseline": BASELINE, "points": points}, threads=1, options=options)


def _contenders(layer: Layer, fitted: Clusters, budget: int) -> list[Contender]:
    screen = screen_at(fitted, budget)
    dial = {"clusters": len(fitted.weight), "budget": budget}
    return [
        Contender(fitted.method, dial, ScreenNumpyLayer.build(layer.weight, layer.bias, screen=screen)),
        Contender(f"{fitted.method}, {NATIVE}", dial, ScreenLayer.build(layer.weight, layer.bias, screen, int8=False)),
    ]


def searched(
    layer: Layer, translator: Translator, screen: Screen, pairs: Sequence[Pair], timed: Sequence[Pair]
) -> dict[str, Any]:
    """BLEU, identical outputs and times of beam search on one screen alone."""
    figures: dict[str, Any] = {}
    with with_screen(translator.loaded.folder, screen, layer.weight, layer.bias) as screened:
        for beam in (1, 5):
            exact, published = (texts(screened, pairs, name, beam) for name in ("exact", LAYER))
            sources = [source for source, _ in timed]
            times = time_layers(screened, sources, beam, ("exact", "scan", LAYER))
            figures[f"beam {beam}"] = against(exact, published, pairs) | {"times": times}
    return {"baseline": "exact", "beams": figures}


def doses(
    translator: Translator, dosed: Dosed, clusters: int, budgets: Sequence[int], vectors: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """One number of learned clusters at each number of vectors: a line of each budget, recorded."""
    layer, tallies = dosed.layer, []
    for budget in budgets:
        fitted = cluster(layer, "l2s", clusters, budget, near=False)
        options = {"clusters": clusters, "budget": budget}
        tallies.append((Tally(fitted.weight, fitted.bias, len(layer.bias), K), options))

    def measure(tally: Tally, options: dict[str, Any]) -> dict[str, Any]:
        screen = screen_with(tally, layer.eos_id, options["budget"])
        alone = hits(screen, layer.test, len(layer.bias))
        precision = {"p_at_1": round(alone.p_at_1, 5), "p_at_5": round(alone.p_at_5, 5)}
        return searched(layer, translator, screen, dosed.pairs, dosed.pairs[:TIMED]) | precision

    for number in sorted(vectors):
        yield from dosed.lines("published_doses", tallies, number, measure)


def describe(line: dict[str, Any]) -> str:
    """The table of one number of clusters, for people."""
    options = line["options"]
    if "beams" in line:
        return "\n".join(_beam(options, name, one) for name, one in line["beams"].items())
    rows = [f"{options['model']}, r = {options['clusters']}, fitted on {options['fitted_on']} vectors"]
    for point in line["points"]:
        rows.append(
            f"  {point['method']:<20} budget {point['dial'].get('budget', '-'):>4}  P@1 {point['p_at_1']:.4f}  "
            f"P@5 {point['p_at_5']:.4f}  {point['us']:8.1f} us  x{point['ratio']:.2f} "
            f"({point['least_ratio']:.2f}-{point['most_ratio']:.2f})"
        )
    return "\n".join(rows)


def _beam(options: dict[str, Any], name: str, one: dict[str, Any]) -> str:
    exact, own = one["times"]["exact"], one["times"][LAYER]
    text = f"{options['model']}, {options['fitted_on']} vectors, r = {options['clusters']}, budget {options['budget']}"
    text += f", {name}: BLEU {one['screen']:.2f}"
    text += f" against {one['exact']:.2f} ({one['difference']:+.2f}), {one['identical']:.2%} identical; "
    layer = exact["layer_ms"] / own["layer_ms"]
    return text + f"output layer x{layer:.1f}, whole translation x{own['ratio']:.2f} over the native exact layer"


def main(
    model: Annotated[str, typer.Option(help="one of the subjects of L2S, with a model below `models` or `runs`")],
    data: Data = DATA,
    clusters: list[int] = list(CLUSTERS),
    budgets: list[int] = list(BUDGETS),
    sentences: Sentences = 1000,
    share: Annotated[float, typer.Option(help="of the usual number of vectors to fit on")] = 1.0,
    part: Annotated[str, typer.Option(help="table, seen (P@k by vectors), ours")] = "table",
    models: Models = list(MODELS),
    text: Text = "",
    vectors: Amounts = list(DOSES),
    test: TestPairs = TEST,
) -> None:
    """Measure, record and print each number of clusters; those that this commit has recorded are not measured again."""
    if text:
        dosed = collect_dosed(folder_of(model, models), text, data, test, sentences)
        translator = Translator(folder_of(model, models))
        for line in doses(translator, dosed, clusters[0], budgets, vectors):
            print(describe(line), flush=True)
        return
    subject, folder = named(model, models)
    if part == "ours":
        print(screened_search.describe(screened_search.measure(subject, folder, data, quick=False)))
        return
    layer = collect_layer(subject, folder, data, share)
    if part == "seen":
        for r, some in ((r, some) for r in seen.CLUSTERS for some in seen.SHARES):
            line = seen.seen(layer, r, some)
            print(line["options"], line["methods"], line["every token seen"], flush=True)
        return
    for number in clusters:
        print(describe(curve(layer, number, budgets)), flush=True)
