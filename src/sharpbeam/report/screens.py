"""What a screen is and does: the sizes of its sets, the words of its clusters, and which rows it doubts, and why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sharpbeam.output_layers.screen import Signs
from sharpbeam.types import Floats, Ids, Screen

SHARED = 0.9  # a word that is in so many of the sets tells nothing about one of them


@dataclass(frozen=True)
class Sets:
    """The sizes of the candidate sets, in words, over clusters."""

    clusters: int
    least: int
    median: float
    mean: float
    most: int
    distinct: int  # words that are in any set; the others can come from the exact layer only
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
    """One cluster: the number of its words, and those of them that the fewest other clusters have."""

    number: int
    size: int
    telling: Ids


def shared_words(screen: Screen, vocab: int) -> Ids:
    """Ids of the words that nearly every set holds, those of most sets first."""
    sets = np.bincount(screen.token, minlength=vocab)
    shared = np.flatnonzero(sets >= SHARED * len(screen.weight))
    return shared[np.argsort(-sets[shared], kind="stable")].astype(np.int32)


def show_clusters(screen: Screen, vocab: int, clusters: int, words: int) -> list[Cluster]:
    """`clusters` clusters from the smallest to the largest set, each with at most `words` telling words."""
    size, sets = np.diff(screen.start), np.bincount(screen.token, minlength=vocab)
    order = np.argsort(size, kind="stable")
    chosen = order[np.unique(np.linspace(0, len(order) - 1, min(clusters, len(order))).round().astype(int))]
    found = []
    for t in chosen.tolist():
        own = screen.token[screen.start[t] : screen.start[t + 1]]
        own = own[sets[own] < SHARED * len(size)]
        found.append(Cluster(t, int(size[t]), own[np.argsort(sets[own], kind="stable")][:words]))
    return found


@dataclass(frozen=True)
class Doubts:
    """Which of some rows go to the exact layer, and why. The four reasons add up to `sent_back`."""

    rows: int
    sent_back: int
    few: int  # the set has fewer than k words, and the k-th best counts
    low: int  # the lowest logit that matters is so low that the row would be doubted at the middle distance too
    far: int  # the row is so far from its cluster's center that the logit does not do, which would at that distance
    loose: int  # more of what counts in the normaliser lies outside the set than the test allows
    needless: int  # of those sent back: the set had all words that matter
    missed: int  # not sent back, though a word is missing


def doubts(
    screen: Screen, weight: Floats, bias: Floats, hidden: Floats, best: Ids, wanted: NDArray[np.bool_]
) -> Doubts | None:
    """The reasons over `hidden` [n, D] with the exact layer's k best `best` [n, k], of which those `wanted` matter.

    None where the screen has no test.
    """
    if (test := screen.doubt) is None:
        return None
    signs = Signs(weight, bias, screen, hidden)
    sure, offset = signs.sure(test.margin, test.by_tail, test.by_far), np.float32(test.offset)
    sent = signs.doubtful(test)
    words = ~(sure >= offset)
    few = words & ~np.isfinite(sure)
    nearer = sure + np.float32(test.by_far) * (signs.far - np.median(signs.far))
    low = words & ~few & (nearer < offset)
    inside = np.zeros((len(screen.weight), len(bias)), np.bool_)
    inside[np.arange(len(screen.weight)).repeat(np.diff(screen.start)), screen.token] = True
    right = (inside[signs.cluster[:, None], best] | ~wanted).all(axis=1)
    masks = (sent, few, low, words & ~few & ~low, sent & ~words, sent & right, ~sent & ~right)
    return Doubts(len(hidden), *(int(np.count_nonzero(mask)) for mask in masks))
