"""Fitting: clusters, sets and the test of doubtful rows, from collected hidden vectors to the cheapest good screen.

Sentences are dealt into three parts, by their number: seven tenths to fit on, two to choose and calibrate on (a bound
of 0.999 takes thousands of steps without a miss), and one that decides nothing, on which the chosen screen is measured.

Sets are made of all of the best words, also those that did not matter: elsewhere in the cluster they may.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sharpbeam.errors import InputError, OptionError
from sharpbeam.fit.screen.collect import Collection, Records
from sharpbeam.fit.screen.fidelity import Demand, Measure, calibrate, measure
from sharpbeam.fit.screen.kmeans import assign, kmeans, nearby
from sharpbeam.fit.screen.output import Output, totals
from sharpbeam.fit.screen.residual_mass import Mass, complete, rescale, weigh
from sharpbeam.fit.screen.sets import NEAR, Counts, count, knapsack, screen_of, widen
from sharpbeam.options.schema import require
from sharpbeam.options.screen import METHODS, ScreenOptions
from sharpbeam.types import Floats, Ids, Screen

CLUSTERS = (100, 200, 400)  # searched
# Searched budgets, as shares of the average set with every word that was seen; above 1 with others that are likely.
SHARES = (4.0, 2.0, 1.0, 0.7, 0.5)
LEARNED = 0.5  # the same share, of the budget that l2s learns its clusters with where none is given
TAIL_ROWS = 120_000  # that a tail is fitted on, at most
CONFIDENCE = 0.95  # that all bounds of one search hold together (Bonferroni)
Say = Callable[[str], None]


@dataclass(frozen=True)
class Setting:
    """One point of the curve: a screen's options, and what it does on the part that is chosen on."""

    method: str
    clusters: int
    budget: float  # 0: every word that was seen
    measure: Measure


@dataclass(frozen=True)
class Fitted:
    """The chosen screen, its place on the curve, and what it does on sentences that decided nothing."""

    screen: Screen
    setting: Setting
    held_out: Measure
    curve: list[Setting]
    reached: bool  # whether the lower bound reaches the fidelity that was asked for


@dataclass(frozen=True)
class Clustering:
    """The fitting vectors in clusters."""

    method: str
    weight: Floats  # [C, D]
    bias: Floats  # [C]
    label: Ids  # [n]
    counts: Counts
    mass: Mass

    def center(self, hidden: Floats) -> Floats:
        """Mean of the vectors `hidden` [n, D] of each cluster [C, D]; the mean of all where a cluster has none."""
        center = np.tile(hidden.mean(axis=0), (len(self.weight), 1))
        for cluster in np.unique(self.label):
            center[cluster] = hidden[self.label == cluster].mean(axis=0)
        return center.astype(np.float32)


def deal(collection: Collection) -> tuple[Records, Records, Records]:
    """The steps to fit on, to choose on, and to measure on; raises InputError where a part is empty."""
    fit = collection.read(lambda sentence: sentence % 10 > 2)
    choose = collection.read(lambda sentence: (sentence % 10 == 1) | (sentence % 10 == 2))
    held_out = collection.read(lambda sentence: sentence % 10 == 0)
    if not (len(fit) and len(choose) and len(held_out)):
        raise InputError(
            "the text is too short to fit a screen: some sentences are fitted on, others chosen and measured on, which "
            "takes 4 different ones at the very least (25 lines for a language model); give more --text."
        )
    return fit, choose, held_out


def fit_screen(
    collection: Collection, output: Output, eos_id: int, options: ScreenOptions, say: Say = lambda text: None
) -> Fitted:
    """Fit every setting that `options` leaves open, and choose: the cheapest whose bound reaches the fidelity.

    Without a fidelity, or where no bound reaches it, the one with the highest fidelity, the cheapest of these. `say` is
    told of each setting. Raises OptionError for a method that this installation lacks.
    """
    fit, choose, held_out = deal(collection)
    sample = fit[np.linspace(0, len(fit) - 1, min(len(fit), TAIL_ROWS)).astype(np.int64)]
    clusterings = list(_clusterings(fit, output, eos_id, options, say))
    demand = Demand(options.top_k, options.tolerance)
    settings = len(clusterings) * (1 if options.budget or not options.fidelity else len(SHARES))
    confidence = 1 - (1 - CONFIDENCE) / settings
    found: list[tuple[Setting, Screen]] = []
    for clustering in clusterings:
        center = clustering.center(fit["hidden"]) if options.fidelity else None
        for budget in _budgets(clustering, options, len(output.bias)):
            screen = _screen(clustering, budget, output, sample)
            if center is not None:
                screen = calibrate(screen, output, choose, demand, center, options.fidelity, confidence)
            else:  # no row falls back, so that the residual mass has to be right on average
                screen = rescale(screen, output, np.ascontiguousarray(choose["hidden"]), totals(output, choose))
            result = measure(screen, output, choose, demand, confidence)
            found.append((Setting(clustering.method, len(clustering.weight), budget, result), screen))
            say(_line(found[-1][0]))
    good = [(s, screen) for s, screen in found if options.fidelity and s.measure.bound >= options.fidelity]
    if good:
        setting, screen = min(good, key=lambda pair: pair[0].measure.cost)
    else:
        setting, screen = max(found, key=lambda pair: (pair[0].measure.fidelity, -pair[0].measure.cost))
    final = measure(screen, output, held_out, demand, CONFIDENCE)
    return Fitted(screen, setting, final, [s for s, _ in found], bool(good))


def _screen(clustering: Clustering, budget: float, output: Output, sample: Records) -> Screen:
    """Sets of `budget` words on average, and their tail, fitted on `sample`."""
    counts, mass = clustering.counts, clustering.mass
    screen = screen_of(clustering.weight, clustering.bias, counts, knapsack(counts, budget))
    if budget > counts.everything:
        screen = widen(screen, counts.rows, mass.share, budget)
    return complete(screen, output, mass, np.ascontiguousarray(sample["hidden"]), totals(output, sample))


def _clusterings(fit: Records, output: Output, eos_id: int, options: ScreenOptions, say: Say) -> Iterator[Clustering]:
    k = options.set_k or options.top_k
    hidden, top, total = np.ascontiguousarray(fit["hidden"]), fit["token"][:, :k], totals(output, fit)
    vocab, always = len(output.bias), np.array([eos_id], np.int32)
    for clusters in _numbers(len(fit), options):
        for method in _methods(options):
            say(f"{method}, {clusters} clusters of {len(fit)} vectors")
            weight, bias = kmeans(hidden, clusters, options.seed, spherical=method != "kmeans")
            if method == "l2s":
                from sharpbeam.fit.screen.l2s import Task, learn

                start = count(assign(hidden, weight, bias), top, clusters, vocab, always)
                task = Task(hidden, top, vocab, always, options.budget or LEARNED * start.everything)
                weight = learn(task, weight, options.rounds, options.seed)
            label = assign(hidden, weight, bias)
            after = nearby(hidden, weight, bias, min(len(NEAR), clusters - 1))
            counts = count(label, top, clusters, vocab, always, after)
            mass = weigh(hidden, total, label, clusters, output)
            yield Clustering(method, weight, bias, label, counts, mass)


def _numbers(rows: int, options: ScreenOptions) -> Sequence[int]:
    """Numbers of clusters to try; never more than there are vectors. Raises OptionError where more are asked for."""
    if options.clusters:
        require(options.clusters <= rows, "clusters", options.clusters, f"at most the vectors to fit on, {rows}")
        return (options.clusters,)
    return sorted({min(number, rows) for number in (CLUSTERS if options.fidelity else CLUSTERS[:1])})


def _methods(options: ScreenOptions) -> Sequence[str]:
    import importlib.util

    torch = importlib.util.find_spec("torch") is not None
    if options.method == "l2s" and not torch:
        raise OptionError("method 'l2s' needs PyTorch, which is not installed; run: pip install 'sharpbeam[train]'")
    if options.method != "auto":
        return (options.method,)
    return [method for method in METHODS if torch or method != "l2s"] if options.fidelity else METHODS[:1]


def _budgets(clustering: Clustering, options: ScreenOptions, vocab: int) -> Sequence[float]:
    if options.budget or not options.fidelity:
        return (options.budget,)
    everything = clustering.counts.everything
    widest = 0.5 * vocab  # beyond, a scan of all words is as good
    return [min(share * everything, max(widest, everything)) if share != 1 else 0.0 for share in SHARES]


def _line(setting: Setting) -> str:
    m = setting.measure
    return (
        f"{setting.method:<9} {setting.clusters:>5} clusters, sets of {m.average_set:6.1f}: P@1 {m.precision_1:.4f}, "
        f"all that matter {m.sufficient:.4f}, log Z {m.within:.4f}; with {m.fallback:.1%} falling back "
        f"{m.fidelity:.5f} (bound {m.bound:.5f}), log Z off by {m.normaliser_error:.4f}, {m.cost / 1024:.0f} KiB a row"
    )


def facts_of(fitted: Fitted, options: ScreenOptions) -> dict[str, object]:
    """What screen.json says of the fit, as plain values."""
    setting = dataclasses.asdict(fitted.setting)
    tolerance = options.tolerance if math.isfinite(options.tolerance) else None  # JSON has no infinity
    return {
        "method": setting["method"],
        "clusters": setting["clusters"],
        "budget": setting["budget"] or None,
        "options": dataclasses.asdict(options) | {"tolerance": tolerance},
        "fidelity_reached": fitted.reached,
        "chosen_on": setting["measure"],
        "held_out": dataclasses.asdict(fitted.held_out),
        "set_sizes": np.diff(fitted.screen.start).tolist(),
        "curve": [dataclasses.asdict(point) for point in fitted.curve],
    }
