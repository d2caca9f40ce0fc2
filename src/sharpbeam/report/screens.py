"""Reports on a screen: the sizes of its sets, the tokens of its clusters, and which rows fall back, and why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sharpbeam.output_layers.screen import FallbackFeatures, Screen
from sharpbeam.types import Floats, Ids

SHARED = 0.9  # share of the sets; a token that more of them hold tells nothing about one


@dataclass(frozen=True)
class Sets:
    """The sizes of the candidate sets, in tokens, over clusters."""

    clusters: int
    least: int
    median: float
    mean: float
    most: int
    distinct: int  # tokens that are in any set; the others can come from the exact layer only
    histogram: list[tuple[int, int, int]]  # from, to (both included), clusters: sizes between powers of two


def set_sizes(screen: Screen) -> Sets:
    """How large the sets are."""
    size = np.diff(screen.start)
    power = np.floor(np.log2(size)).astype(int)
    bins = [(2**p, 2 ** (p + 1) - 1, int((power == p).sum())) for p in range(power.min(), power.max() + 1)]
    return Sets(
        len(size),
        int(size.min()),
        float(np.median(size)),
        float(size.mean()),
        int(size.max()),
        len(np.unique(screen.token)),
        bins,
    )


@dataclass(frozen=True)
class Cluster:
    """One cluster: the number of its tokens, and those of them that the fewest other clusters have."""

    number: int
    size: int
    telling: Ids


def shared_tokens(screen: Screen, vocab: int) -> Ids:
    """Ids of the tokens that nearly every set holds, those of most sets first."""
    sets = np.bincount(screen.token, minlength=vocab)
    shared = np.flatnonzero(sets >= SHARED * len(screen.weight))
    return shared[np.argsort(-sets[shared], kind="stable")].astype(np.int32)


def show_clusters(screen: Screen, vocab: int, clusters: int, tokens: int) -> list[Cluster]:
    """`clusters` clusters from the smallest to the largest set, each with at most `tokens` telling tokens."""
    size, sets = np.diff(screen.start), np.bincount(screen.token, minlength=vocab)
    order = np.argsort(size, kind="stable")
    chosen = order[np.unique(np.linspace(0, len(order) - 1, min(clusters, len(order))).round().astype(int))]
    shown = []
    for t in chosen.tolist():
        own = screen.token[screen.start[t] : screen.start[t + 1]]
        own = own[sets[own] < SHARED * len(size)]
        shown.append(Cluster(t, int(size[t]), own[np.argsort(sets[own], kind="stable")][:tokens]))
    return shown


@dataclass(frozen=True)
class FallbackReasons:
    """How many of some rows fall back to the exact layer, and why. The four reasons add up to `fallen_back`."""

    rows: int
    fallen_back: int
    few: int  # the set has fewer than k tokens, and the k-th best counts
    low: int  # the lowest logit that matters is so low that the test would fail at the median distance too
    far: int  # the row is so far from its cluster's center that the test fails, which it would not at that distance
    loose: int  # more of the normalizer is outside the set than the test allows
    needless: int  # of those that fall back: the set had all tokens that matter
    missed: int  # answered by the screen, though a token is missing


def fallback_reasons(
    screen: Screen, weight: Floats, bias: Floats, hidden: Floats, best: Ids, needed: NDArray[np.bool_]
) -> FallbackReasons | None:
    """The reasons over `hidden` [n, D] with the exact layer's k best `best` [n, k], of which those `wanted` matter.

    None if the screen has no test.
    """
    if (test := screen.fallback) is None:
        return None
    features = FallbackFeatures(weight, bias, screen, hidden)
    certainty = features.certainty(test.margin, test.mass_weight, test.distance_weight)
    threshold = np.float32(test.threshold)
    falls_back = features.uncertain(test)
    margin_fails = ~(certainty >= threshold)
    few = margin_fails & ~np.isfinite(certainty)
    nearer = certainty + np.float32(test.distance_weight) * (features.distance - np.median(features.distance))
    low = margin_fails & ~few & (nearer < threshold)
    far, loose = margin_fails & ~few & ~low, falls_back & ~margin_fails
    inside = np.zeros((len(screen.weight), len(bias)), np.bool_)
    inside[np.arange(len(screen.weight)).repeat(np.diff(screen.start)), screen.token] = True
    right = (inside[features.cluster[:, None], best] | ~needed).all(axis=1)
    masks = (falls_back, few, low, far, loose, falls_back & right, ~falls_back & ~right)
    return FallbackReasons(len(hidden), *(int(np.count_nonzero(mask)) for mask in masks))
