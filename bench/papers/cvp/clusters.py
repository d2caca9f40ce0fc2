"""Clusters of CVP as published, on one direction: plain k-means, plain unions, a softmax over the set (Figures 3, 4).

The set of a cluster is the union of its members' best K tokens, K = 1, 3, 5, counted over vectors of beam search on a
text; tokens outside have probability zero, and no row falls back. For each: the largest share of the vocabulary that is
active in a cluster, the average one, and that of a step's union; precision on held-out steps. BLEU and identical
outputs as in the paper's Table 3: beam 1 with a row's own set, and beam 2 with the union of 20 sentences, which are
decoded together (section 2.3); and beam 5 with own sets. Then the time of a call for such a union while all 20 are in
flight, against the exact layer, in float32.
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
from sharpbeam.fit.screen.clusters import Tally, assign, kmeans
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.output_layers.screen import Screen, ScreenLayer, ScreenUnionLayer
from sharpbeam.text.lines import Pair
from sharpbeam.types import Floats, TopK

CENTROIDS, BEST = 400, (1, 3, 5)
BATCH, BEAM = 20, 2  # of the paper's table 1
TOGETHER = 1 << 20  # tokens: any BATCH of texts is one batch
TOP = 2 * BEAM  # tokens that such a search asks for
SETTINGS = {1: "alone", BEAM: "union", 5: "alone"}  # sets by beam
Answers = dict[int, list[str]]  # of the exact layer, by beam


def point(
    translator: Translator, layer: Layer, screen: Screen, pairs: Sequence[Pair], exact: Answers
) -> dict[str, Any]:
    """Figures of one screen: how much is active, precision, BLEU and identical outputs."""
    alone, vocab = hits(screen, layer.test, len(layer.bias)), len(layer.bias)
    with with_screen(translator.loaded.folder, screen, layer.weight, layer.bias) as screened:
        quality = {
            f"beam {beam}": against(exact[beam], answers(screened, pairs, f"screen-{sets}", beam), pairs)
            for beam, sets in SETTINGS.items()
        }
    return quality | {
        "most_active": round(int(np.diff(screen.start).max()) / vocab, 5),
        "active": round(alone.average_set / vocab, 5),
        "p_at_1": round(alone.p_at_1, 5),
        "p_at_5": round(alone.p_at_5, 5),
    }


def answers(translator: Translator, pairs: Sequence[Pair], output_layer: str, beam: int) -> list[str]:
    """Translations, BATCH of them at a time, which are decoded together."""
    parts = (pairs[first : first + BATCH] for first in range(0, len(pairs), BATCH))
    return [text for part in parts for text in texts(translator, part, output_layer, beam, batch_tokens=TOGETHER)]


def doses(
    translator: Translator, dosed: Dosed, centroids: int, vectors: Sequence[int], exact: Answers, rounds: int
) -> Iterator[dict[str, Any]]:
    """One number of centroids at each number of vectors: a line of each K, recorded."""
    layer, batches = dosed.layer, steps(translator, dosed.pairs)
    weight, bias = kmeans(layer.fit.hidden, centroids, 1)
    tallies = [(Tally(weight, bias, len(layer.bias), k), {"centroids": centroids, "k": k}) for k in BEST]

    def measure(tally: Tally, options: dict[str, Any]) -> dict[str, Any]:
        screen = screen_with(tally, layer.eos_id)
        best = {str(options["k"]): point(translator, layer, screen, dosed.pairs, exact)}
        sizes = [_union_size(screen, rows) / len(layer.bias) for rows in batches]
        active = {"active": round(float(np.mean(sizes)), 5), "most_active": round(max(sizes), 5)}
        return {"best": best, "union": active, "baseline": "exact", "calls": calls(layer, screen, batches, rounds)}

    for number in sorted(vectors):
        yield from dosed.lines("cvp_doses", tallies, number, measure)


def steps(translator: Translator, pairs: Sequence[tuple[str, str]]) -> list[Floats]:
    """The hidden vectors of each step of BATCH requests with beams of BEAM, while all are in flight."""
    recorder = Recorder(translator.loaded.exact)
    with with_parts(translator, exact=recorder):
        for first in range(0, len(pairs) - BATCH + 1, BATCH):
            sources = [source for source, _ in pairs[first : first + BATCH]]
            translator.translate(sources, beam_size=BEAM, batch_tokens=TOGETHER, output_layer="exact")
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


def _union_size(screen: Screen, rows: Floats) -> int:
    sets = [screen.token[screen.start[t] : screen.start[t + 1]] for t in assign(rows, screen.weight, screen.bias)]
    return len(np.unique(np.concatenate(sets)))


def describe(line: dict[str, Any]) -> str:
    """One line, for people."""
    options = line["options"]
    rows = [f"{options['model']}, {options['centroids']} centroids, {line['vectors']:,} vectors"]
    for k, p in line["best"].items():
        beams = ", ".join(
            f"{b} {p[b]['difference']:+.2f} {p[b]['identical']:.1%}" for b in map("beam {}".format, SETTINGS)
        )
        rows.append(
            f"  K = {k}: {p['most_active']:.2%} active at most, {p['active']:.2%} on average, "
            f"{line['union']['active']:.2%} in unions; P@1 {p['p_at_1']:.4f}, P@5 {p['p_at_5']:.4f}; {beams} identical"
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
    exact = {beam: answers(translator, dosed.pairs, "exact", beam) for beam in SETTINGS}
    for number in centroids:
        for line in doses(translator, dosed, number, vectors, exact, rounds):
            print(describe(line), flush=True)
