"""Precision against speed of every output layer, over its dial, on held-out hidden vectors of a model.

Precision is P@1, P@5, and the share of rows with all five right. Each method is timed one row at a time on one thread,
in turns with the NumPy full softmax, which is the baseline of the paper (L2S section 4.1), and with our own layers. Our
exact layers are checked first: no time is printed for a wrong answer of these. The figures go to results/curves.jsonl,
one line for each method, and a picture is drawn.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from benchmarks import record
from benchmarks.interleave import Timing, interleave
from benchmarks.testset import DATA, german_english
from quickbeam.engine.load import find_model, load_parts
from quickbeam.errors import QuickbeamError
from quickbeam.models.load import load_model
from quickbeam.models.screen_folder import FACTS, read_screen
from quickbeam.options.decode import MachineOptions
from quickbeam.projections.baselines.adaptive_softmax import AdaptiveSoftmaxProjection
from quickbeam.projections.baselines.faiss_ivf import FaissIvfProjection
from quickbeam.projections.baselines.fgd import FgdProjection
from quickbeam.projections.baselines.full_softmax import FullSoftmaxProjection
from quickbeam.projections.baselines.greedy_mips import GreedyMipsProjection
from quickbeam.projections.baselines.pca_tree import PcaTreeProjection
from quickbeam.projections.baselines.scann_tree import ScannProjection
from quickbeam.projections.baselines.simple_lsh import SimpleLshProjection
from quickbeam.projections.baselines.svd_softmax import SvdSoftmaxProjection
from quickbeam.projections.certified import CertifiedProjection, Preview
from quickbeam.projections.door import RowProjection
from quickbeam.projections.exact import ExactProjection
from quickbeam.projections.scan import ScanProjection
from quickbeam.projections.screened import ScreenedProjection
from quickbeam.text.pairs import column_pairs
from quickbeam.train.screen.collect import Collector
from quickbeam.types import Floats, Ids

TRAIN = "tatoeba/eng-deu.train.tsv.gz"
BASELINE = "NumPy"
PROVEN = ("exact", "scan", "certified")  # whose k best are the exact layer's, always
SAME_SHARE = 0.999  # of the tokens of BASELINE; float32 sums are rounded in another order, so near ties may turn
K = 5
Dial = dict[str, int]


class WrongAnswerError(Exception):
    """A layer that claims to be exact is not, so its time means nothing."""


@dataclasses.dataclass(frozen=True)
class Layer:
    """An output matrix [V, D] with its bias [V], and hidden vectors [N, D] to fit on and to measure with."""

    weight: Floats
    bias: Floats
    samples: Floats
    held_out: Floats


def methods(vocab: int, width: int) -> dict[str, tuple[Any, list[Dial]]]:
    """Classes and dials, from little to much, for an output matrix [vocab, width]."""
    few = min(8 * K, vocab)  # words that are rescored where a search gives them in order
    lists = max(1, round(vocab**0.5))
    probes = sorted({min(lists, p) for p in (1, 2, 4, 8, 16, 32, 64)})
    ranks = sorted({max(1, round(width * share)) for share in (0.05, 0.1, 0.2, 0.4, 0.7)})
    heads = sorted({max(1, round(vocab * share)) for share in (0.02, 0.05, 0.1, 0.2, 0.4, 0.7)})
    budgets = sorted({max(1, round(vocab * share)) for share in (0.005, 0.02, 0.1, 0.3)})
    deepest = min(vocab.bit_length() - 1, width)
    return {
        "SVD-softmax": (SvdSoftmaxProjection, [{"rank": r, "rescored": n} for r in ranks for n in (few, few * 5)]),
        "adaptive softmax": (AdaptiveSoftmaxProjection, [{"head": head} for head in heads]),
        "FGD": (FgdProjection, [{"links": 32, "searched": s, "kept": few} for s in (few, few * 2, few * 5, few * 20)]),
        "Greedy-MIPS": (GreedyMipsProjection, [{"budget": budget} for budget in budgets]),
        "PCA tree": (PcaTreeProjection, [{"depth": d} for d in (8, 6, 4, 3, 2) if d <= deepest]),
        "LSH": (SimpleLshProjection, [{"bits": b, "tables": 16} for b in (10, 8, 6, 4)]),
        "Faiss IVF": (FaissIvfProjection, [{"lists": lists, "probed": p, "kept": few} for p in probes]),
        "ScaNN": (
            ScannProjection,
            [{"leaves": lists, "probed": p, "kept": kept} for kept in (few, few * 5) for p in probes],
        ),
    }


def references(folder: Path, layer: Layer) -> dict[str, RowProjection]:
    """The baseline and our own layers, which take part in the timing of every method."""
    weight, bias = layer.weight, layer.bias
    found: dict[str, RowProjection] = {
        BASELINE: FullSoftmaxProjection.build(weight, bias),
        "exact": ExactProjection.build(weight, bias),
        "scan": ScanProjection.build(weight, bias),
        "certified": CertifiedProjection.build(weight, bias, Preview.fit(weight, layer.samples)),
    }
    if (folder / FACTS).exists():
        found["screen"] = ScreenedProjection.build(weight, bias, read_screen(folder, weight, bias), found["exact"])
    return found


def precision(projection: RowProjection, hidden: Floats, wanted: Ids) -> dict[str, float]:
    """P@1, P@5 and the share of rows with all five right, against the exact layer's `wanted` [N, K]."""
    top = projection.topk(hidden, wanted.shape[1])
    token = np.where(top.log_prob > -np.inf, top.token, -1)
    hits = (token[:, :, None] == wanted[:, None, :]).any(axis=2).sum(axis=1)
    return {
        "p_at_1": round(float(np.mean(token[:, 0] == wanted[:, 0])), 5),
        "p_at_5": round(float(hits.mean() / wanted.shape[1]), 5),
        "all_five": round(float(np.mean(hits == wanted.shape[1])), 5),
    }


def measure(layer: Layer, own: dict[str, RowProjection], method: Any, dials: list[Dial], rows: int, rounds: int) -> Any:
    """Figures of `own` and of the method at each dial: precision on all held-out vectors, time on `rows` of them."""
    wanted = own["exact"].topk(layer.held_out, K).token
    timed = layer.held_out[np.linspace(0, len(layer.held_out) - 1, rows).astype(int)]
    layers = own | {
        f"dial {i}": method.build(layer.weight, layer.bias, layer.samples, **dial) for i, dial in enumerate(dials)
    }
    quality = {name: precision(projection, layer.held_out, wanted) for name, projection in layers.items()}
    for name in PROVEN:
        if quality[name]["all_five"] < 1 or not np.array_equal(own[name].topk(layer.held_out, K).token, wanted):
            raise WrongAnswerError(f"{name} is not exact: {quality[name]}")
    if quality[BASELINE]["p_at_5"] < SAME_SHARE:
        raise WrongAnswerError(f"{BASELINE} and exact disagree: {quality[BASELINE]}")

    def one_by_one(projection: RowProjection) -> Callable[[], None]:
        def run() -> None:
            for row in range(len(timed)):
                projection.topk(timed[row : row + 1], K)

        return run

    contenders = {name: one_by_one(projection) for name, projection in layers.items()}
    timings = interleave(contenders, BASELINE, rounds, lambda _: None)  # what they return has been checked above
    return {
        "baseline": BASELINE,
        "own": {name: _figures(quality[name], timings[name], rows) for name in own},
        "dials": [
            {"dial": dial} | _figures(quality[f"dial {i}"], timings[f"dial {i}"], rows) for i, dial in enumerate(dials)
        ],
    }


def _figures(quality: dict[str, float], timing: Timing, rows: int) -> dict[str, float]:
    return quality | {
        "median_ms": round(1e3 * timing.median_s / rows, 5),
        "ratio": round(timing.ratio, 3),
        "least_ratio": round(timing.least_ratio, 3),
        "most_ratio": round(timing.most_ratio, 3),
    }


def curves(folder: Path, layer: Layer, rows: int, rounds: int, only: list[str]) -> Iterator[dict[str, Any]]:
    """Measure and record method by method; a method whose package is missing is named and left out."""
    own = references(folder, layer)
    vocab, width = layer.weight.shape
    for name, (method, dials) in methods(vocab, width).items():
        if only and name not in only:
            continue
        options = {"model": folder.name, "vocab": vocab, "width": width, "k": K, "rows": rows, "rounds": rounds}
        options |= {"samples": len(layer.samples), "held_out": len(layer.held_out)}
        try:
            figures = measure(layer, own, method, dials, rows, rounds)
        except QuickbeamError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        yield record.write("curves", {"method": name} | figures, threads=1, options=options)


def draw(lines: list[dict[str, Any]], path: Path) -> None:
    """Speed-up over the baseline (log) against P@1 and P@5: a curve for each method, a star for each of our layers."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(13, 5.5), sharey=True)
    for axis, (key, label) in zip(axes, (("p_at_1", "P@1"), ("p_at_5", "P@5")), strict=True):
        for line in lines:
            points = sorted((point[key], point["ratio"]) for point in line["dials"])
            axis.plot(*zip(*points, strict=True), marker="o", markersize=4, label=line["method"])
        for name, point in lines[-1]["own"].items():
            axis.plot(point[key], point["ratio"], marker="*", markersize=13, linestyle="", label=name)
        axis.set(xlabel=label, yscale="log")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel(f"times faster than the full softmax in {BASELINE}")
    axes[1].legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    options = lines[-1]["options"]
    figure.suptitle(
        f"{options['model']}: {options['vocab']} words, {options['width']} wide; one thread, one row at a time"
    )
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def describe(line: dict[str, Any]) -> str:
    """One measurement, for people."""
    rows = [(name, point) for name, point in line["own"].items()]
    rows += [(" ".join(f"{name}={value}" for name, value in point["dial"].items()), point) for point in line["dials"]]
    return f"{line['method']}\n" + "\n".join(
        f"  {name:36} P@1 {point['p_at_1']:.4f}  P@5 {point['p_at_5']:.4f}  all five {point['all_five']:.4f}  "
        f"{point['median_ms']:.4f} ms  x{point['ratio']:.2f} ({point['least_ratio']:.2f}-{point['most_ratio']:.2f})"
        for name, point in rows
    )


def read_layer(folder: Path, samples: Path, held_out: Path) -> Layer:
    """The output of any model, and hidden vectors from two .npy files [N, D], float32."""
    vectors = [np.load(path, allow_pickle=False).astype(np.float32, copy=False) for path in (samples, held_out)]
    return Layer(*load_model(folder, "native", "auto").output(), *vectors)


def collect_layer(folder: Path, data: str, samples: int, held_out: int) -> Layer:
    """The output of a German to English model, and its hidden vectors on Tatoeba: train to fit, test to measure."""
    parts = load_parts(folder, MachineOptions())
    train = (source for source, _ in column_pairs(Path(data) / TRAIN, 1, 0))
    vectors = []
    for lines, count in ((train, samples), (iter(german_english(data)[0]), held_out)):
        with tempfile.TemporaryDirectory() as work:
            found = Collector(parts, Path(work), 1, K).collect(lines, {}, count, lambda _: None)
            every = found.read(lambda sentence: np.ones(len(sentence), bool))["hidden"]
            vectors.append(np.ascontiguousarray(every[:count]))
    return Layer(*parts.model.output(), *vectors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=DATA, help="folder of the text")
    parser.add_argument("--model", default="de-en", help="a model folder or a bundled name")
    parser.add_argument("--vectors", type=Path, nargs=2, metavar=("SAMPLES", "HELD_OUT"), help=".npy files [N, D]")
    parser.add_argument("--samples", type=int, default=20_000, help="hidden vectors to fit on, if collected")
    parser.add_argument("--held-out", type=int, default=5_000, help="hidden vectors to measure with, if collected")
    parser.add_argument("--rows", type=int, default=200, help="held-out vectors of one turn of the clock")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each contender")
    parser.add_argument("--method", action="append", default=[], help="only this method; may be repeated")
    arguments = parser.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != "1":  # read when NumPy and Faiss are loaded: start again
        command = [sys.executable, "-m", "benchmarks.curves", *sys.argv[1:]]
        os.execve(sys.executable, command, os.environ | {"OMP_NUM_THREADS": "1"})
    folder = find_model(arguments.model)
    if arguments.vectors:
        layer = read_layer(folder, *arguments.vectors)
    else:
        layer = collect_layer(folder, arguments.data, arguments.samples, arguments.held_out)
    lines = []
    for line in curves(folder, layer, arguments.rows, arguments.rounds, arguments.method):
        lines.append(line)
        print(describe(line), flush=True)
    if not lines:
        sys.exit("no method was measured")
    path = record.RESULTS / f"curves-{folder.name}.png"
    draw(lines, path)
    print(f"drawn: {path}")


if __name__ == "__main__":
    main()
