"""The search for a screen: clusters, sets and fallback test, from collected hidden vectors to the cheapest good one.

Sentences are dealt into three parts, by their number: seven tenths to fit on, two to choose and calibrate on (a bound
of 0.999 takes thousands of steps without a miss), and one that decides nothing, on which the chosen screen is measured.

Sets are made of all of the best tokens, also those that did not matter: elsewhere in the cluster they may.

A setting is a clustering and a budget. Settings that cannot win are not fitted: those whose clusters and sets alone
cost more than the best screen so far with its fallback, budgets beyond one that was worse than its neighbor, and other
ways to cluster at numbers of clusters that lost by k-means.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sharpbeam.errors import InputError, OptionError
from sharpbeam.fit.collect import DEALT, Collection, OutputMatrix, Records, Steps
from sharpbeam.fit.progress import Reporter
from sharpbeam.fit.screen.clusters import Counts, Tally, assign, kmeans, knapsack, means, screen_of, widen
from sharpbeam.fit.screen.fidelity import Measure, View
from sharpbeam.fit.screen.residual_mass import Mass, complete, rescale, weigh
from sharpbeam.options.fit import METHODS, ScreenOptions
from sharpbeam.options.schema import require
from sharpbeam.output_layers.screen import Screen
from sharpbeam.types import Floats

CLUSTERS = (100, 200, 400)  # searched
# Searched budgets, as shares of the average set with every token that was seen; above 1 with others that are likely.
SHARES = (4.0, 2.0, 1.0, 0.7, 0.5)
FIRST = SHARES.index(1.0)
LEARNED = 0.5  # the same share, of the budget that l2s learns its clusters with where none is given
REGRESSED = 120_000  # rows that a residual mass is fitted on, at most
Key = tuple[bool, float, float]  # of a setting, the larger the better
More = Callable[[str, Tally], object]  # adds other vectors to the tally of a method, and may put other clusters there
CONFIDENCE = 0.95  # that all bounds of one search hold together (Bonferroni)


@dataclass(frozen=True)
class Setting:
    """One point of the curve: a screen's options, and its figures on the part that is chosen on."""

    method: str
    clusters: int
    budget: float  # 0: every token that was seen
    measure: Measure


@dataclass(frozen=True)
class Fitted:
    """The chosen screen, its place on the curve, and its figures on sentences that decided nothing."""

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
    counts: Counts
    mass: Mass
    center: Floats  # [C, D] mean of the vectors of each cluster; that of all where it has none


def deal(collection: Collection) -> tuple[Records, Records, Records]:
    """The steps to fit on, to choose on, and to measure on; raises InputError where a part is empty."""
    fit = collection.read(lambda sentence: sentence % DEALT > 2)
    choose = collection.read(lambda sentence: (sentence % DEALT == 1) | (sentence % DEALT == 2))
    held_out = collection.read(lambda sentence: sentence % DEALT == 0)
    if not (len(fit) and len(choose) and len(held_out)):
        raise InputError(
            "the text is too short to fit a screen: some sentences are fitted on, others chosen and measured on, which "
            "takes 4 different ones or more (25 lines for a language model); remove MODEL.vectors, give more --text."
        )
    return fit, choose, held_out


def find_screen(
    collection: Collection,
    output: OutputMatrix,
    eos_id: int,
    options: ScreenOptions,
    report: Reporter | None = None,
    more: More | None = None,
) -> Fitted:
    """The cheapest screen whose bound reaches the fidelity, of the settings that `options` leaves open.

    Without a fidelity, or where no bound reaches it, the one with the highest fidelity, the cheapest of these. With
    `more` the best clustering is tried again, with its counts. Raises OptionError for a method that this installation
    lacks.
    """
    report, (fit, choose, held_out) = report or Reporter(), deal(collection)
    methods, numbers = _methods(options), _numbers(len(fit), options)
    search = ScreenSearch(Steps.of(fit, output), Steps.of(choose, output), output, eos_id, options, report)
    several, clusterings = len(methods) * len(numbers) > 1, len(methods) * len(numbers) + (more is not None)
    search.confidence = 1 - (1 - CONFIDENCE) / (clusterings * (len(SHARES) if search.several else 1))
    if more is None or several:
        with report.stage("fitting", len(numbers) + len(methods) - 1, "clusterings") as advance:
            for clusters in numbers:
                search.try_clusters(methods[0], clusters)
                advance(1)
            for method in methods[1:]:
                search.try_clusters(method, search.best[0].clusters)
                advance(1)
    if more is not None:
        method, clusters = (search.best[0].method, search.best[0].clusters) if several else (methods[0], numbers[0])
        search.try_clusters(method, clusters, more)
    setting, screen = search.best
    final = View(screen, output, Steps.of(held_out, output), options).measure(CONFIDENCE)
    return Fitted(screen, setting, final, search.curve, _key(setting, options)[0])


class ScreenSearch:
    """The settings tried so far."""

    def __init__(
        self, fit: Steps, choose: Steps, output: OutputMatrix, eos_id: int, options: ScreenOptions, report: Reporter
    ) -> None:
        self.fit, self.choose, self.output, self.options = fit, choose, output, options
        self.regressed, self.always = fit.spread(REGRESSED), np.array([eos_id], np.int32)
        self.confidence, self.report = CONFIDENCE, report
        self.several = not options.budget and bool(options.fidelity)  # whether budgets are searched
        self.curve: list[Setting] = []
        self.best: tuple[Setting, Screen]

    def try_clusters(self, method: str, clusters: int, more: More | None = None) -> None:
        """Fit the settings of one clustering that may win, beginning with every token that was seen."""
        clustering = self.cluster(method, clusters, more)
        if not self.several:
            self.try_budget(clustering, self.options.budget)
        elif first := self.try_share(clustering, SHARES[FIRST]):
            for shares in (SHARES[FIRST - 1 :: -1], SHARES[FIRST + 1 :]):  # if wider is better, narrower is worse
                best = first
                for share in shares:
                    key = self.try_share(clustering, share)
                    if key is None or key <= best:
                        break
                    best = key
                if best > first:
                    break

    def cluster(self, method: str, clusters: int, more: More | None = None) -> Clustering:
        """The fitting vectors in clusters, in which these and those of `more` are counted."""
        options, hidden, vocab = self.options, self.fit.hidden, len(self.output.bias)
        top = self.fit.records["token"][:, : options.set_k or options.top_k]
        weight, bias = kmeans(hidden, clusters, options.seed, spherical=method != "kmeans")
        if method == "l2s":
            from sharpbeam.fit.screen.l2s import L2sTask, learn

            task = L2sTask(hidden, top, vocab, self.always, options.budget)
            if not options.budget:
                task = dataclasses.replace(task, budget=LEARNED * task.counts(weight).everything)
            weight = learn(task, weight, options.rounds, options.seed)
        tally = Tally(weight, bias, vocab, top.shape[1], options.neighbors)
        label = tally.add(hidden, top)
        if more is not None:
            more(method, tally)
            label = assign(hidden, tally.weight, tally.bias)
        everywhere = np.tile(hidden.mean(axis=0), (clusters, 1))
        mass = weigh(hidden, self.fit.total, label, clusters, self.output)
        center = means(hidden, label, everywhere)
        return Clustering(method, tally.weight, tally.bias, tally.counts(self.always), mass, center)

    def try_share(self, clustering: Clustering, share: float) -> Key | None:
        """As `try_budget`, for a share of the average set with every token that was seen."""
        everything = clustering.counts.everything
        widest = max(0.5 * len(self.output.bias), everything)  # beyond, a scan of all tokens is as good
        return self.try_budget(clustering, min(share * everything, widest) if share != 1 else 0.0)

    def try_budget(self, clustering: Clustering, budget: float) -> Key | None:
        """How good one setting is; None where it cannot win and was not fitted."""
        weight, bias, counts, mass = clustering.weight, clustering.bias, clustering.counts, clustering.mass
        sets = screen_of(weight, bias, counts, knapsack(counts, budget))  # of tokens that were seen
        if budget > counts.everything:
            sets = widen(sets, counts.rows, mass.share, budget)
        label = assign(self.choose.hidden, sets.weight, sets.bias)
        least = self.output.weight.shape[1] * (len(sets.weight) + float(np.diff(sets.start)[label].mean()))
        if self.curve and self.best[0].measure.cost <= least and _key(self.best[0], self.options)[0]:
            return None
        screen = complete(sets, self.output, mass, self.regressed.hidden, self.regressed.total)
        if self.options.fidelity:
            view = View(screen, self.output, self.choose, self.options, clustering.center)
            view.calibrate(self.options.fidelity, self.confidence)
            screen = view.screen
        else:  # no row falls back, so that the residual mass has to be right on average
            screen = rescale(screen, self.output, self.choose.hidden, self.choose.total)
            view = View(screen, self.output, self.choose, self.options)
        setting = Setting(clustering.method, len(clustering.weight), budget, view.measure(self.confidence))
        self.curve.append(setting)
        self.report.note(_line(setting))
        key = _key(setting, self.options)
        if len(self.curve) == 1 or key > _key(self.best[0], self.options):
            self.best = setting, screen
        return key


def _key(setting: Setting, options: ScreenOptions) -> Key:
    """Larger is better: the fidelity is reached; then lower cost where it is, and higher fidelity elsewhere."""
    measure = setting.measure
    reached = bool(options.fidelity) and measure.bound >= options.fidelity
    return reached, 0.0 if reached else measure.fidelity, -measure.cost


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


def _line(setting: Setting) -> str:
    m = setting.measure
    return (
        f"{setting.method:<9} {setting.clusters:>5} clusters, sets of {m.average_set:6.1f}: P@1 {m.precision_1:.4f}, "
        f"all that matter {m.sufficient:.4f}, log Z {m.within:.4f}; with {m.fallback:.1%} falling back "
        f"{m.fidelity:.5f} (bound {m.bound:.5f}), log Z off by {m.normalizer_error:.4f}, {m.cost / 1024:.0f} KiB a row"
    )


def facts_of(fitted: Fitted, options: ScreenOptions) -> dict[str, object]:
    """The facts of the fit for screen.json, as plain values."""
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
