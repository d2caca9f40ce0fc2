"""Clusters, by k-means (CVP-1; spherical: L2S-4), and which tokens each keeps (L2S section 3.2; CVP section 2.2).

k-means is our own: plain Lloyd iterations on BLAS matmuls are short, depend on the seed alone, and need no more than
NumPy; Faiss would be a package of 30 MB for the same centroids.

A cluster meets tokens that none of its own vectors needed, and most of these were needed by vectors nearby. So, beyond
the papers, the tokens of a vector count a little in the clusters that come after its own too (`NEAR`): sets
can be larger than what was seen, by the tokens most likely to be needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sharpbeam.output_layers.screen import Screen
from sharpbeam.types import Floats, Ids

NEAR = (0.1, 0.05, 0.03, 0.02)  # what a vector counts in the clusters after its own, best first
BLOCK = 2048  # rows whose scores are held at a time: with 400 clusters they stay in the cache
ITERATIONS = 20  # at most, as in CVP
SETTLED = 1e-3  # share of the rows that change their cluster: below it the centroids stay
SAMPLE = 512  # rows for each cluster that the iterations use, at most: more take longer and give the same


def kmeans(rows: Floats, clusters: int, seed: int, spherical: bool = False) -> tuple[Floats, Floats]:
    """Clusters of `rows` [n, D] as weight [C, D] and bias [C]: a row belongs to argmax of rows @ weight.T + bias.

    Euclidean: weight = centroids, bias = -|centroid|^2 / 2. Spherical: unit vectors and no bias, by the cosine. The
    first centroids are different rows drawn by `seed`; an empty cluster restarts at a row that is drawn anew.
    """
    draw = np.random.default_rng(seed)
    sample = rows[np.sort(draw.permutation(len(rows))[: clusters * SAMPLE])]
    if spherical:
        sample = _unit(sample)
    weight = _affine(sample[draw.permutation(len(sample))[:clusters]], spherical)
    before = np.full(len(sample), -1, np.int32)
    for _ in range(ITERATIONS):
        label = assign(sample, *weight)
        weight = _affine(means(sample, label, sample[draw.integers(0, len(sample), clusters)]), spherical)
        if np.count_nonzero(label != before) <= SETTLED * len(sample) and len(np.unique(label)) == clusters:
            break
        before = label
    return weight


def assign(rows: Floats, weight: Floats, bias: Floats) -> Ids:
    """The cluster of each of `rows` [n, D], [n] int32: the largest rows @ weight.T + bias, the lowest id on ties."""
    return nearest(rows, weight, bias, 1)[:, 0]


def nearest(rows: Floats, weight: Floats, bias: Floats, count: int) -> Ids:
    """The `count` clusters that come first for each of `rows` [n, D], best first: [n, count] int32; count <= C."""
    clusters = np.empty((len(rows), count), np.int32)
    for first in range(0, len(rows), BLOCK):
        scores = rows[first : first + BLOCK] @ weight.T
        scores += bias
        for column in range(count):  # of a few; a partition and a sort take longer
            best = scores.argmax(axis=1)
            clusters[first : first + BLOCK, column] = best
            scores[np.arange(len(scores)), best] = -np.inf
    return clusters


def members(label: Ids, clusters: int) -> list[NDArray[np.intp]]:
    """The rows of each cluster, in their order; `label` [n] says the cluster of each."""
    order = np.argsort(label, kind="stable")
    return np.split(order, np.searchsorted(label[order], np.arange(1, clusters)))


def means(rows: Floats, label: Ids, empty: Floats) -> Floats:
    """Mean of the rows of each cluster [C, D]; of one without rows, its row of `empty` [C, D]."""
    result = empty.copy()
    for cluster, own in enumerate(members(label, len(empty))):
        if len(own):
            result[cluster] = rows[own].mean(axis=0)
    return result


def _affine(centroids: Floats, spherical: bool) -> tuple[Floats, Floats]:
    if spherical:
        return _unit(centroids), np.zeros(len(centroids), np.float32)
    return centroids, np.float32(-0.5) * np.einsum("cd,cd->c", centroids, centroids)


def _unit(rows: Floats) -> Floats:
    """Rows of length one; a row of zeros stays."""
    length = np.sqrt(np.einsum("nd,nd->n", rows, rows))
    unit: Floats = rows / np.maximum(length, np.finfo(np.float32).tiny)[:, None]
    return unit


@dataclass(frozen=True)
class Counts:
    """How often each token is among the top k of the vectors of each cluster; one entry for each pair that was seen.

    `near` is what vectors of the clusters nearby add; a pair may be seen by these alone.
    """

    rows: NDArray[np.int64]  # [C] vectors of each cluster
    cluster: Ids  # [n] ascending
    token: Ids  # [n] ascending within a cluster
    count: NDArray[np.int64]  # [n]
    near: NDArray[np.float64]  # [n]

    @property
    def share(self) -> NDArray[np.float64]:
        """Share of the cluster's vectors that need the token [n], with what those nearby add."""
        return (self.count + self.near) / self.rows[self.cluster]

    @property
    def everything(self) -> float:
        """The average set over the fitting vectors, if every token that was seen is kept."""
        return float(self.rows[self.cluster].sum() / self.rows.sum())


@dataclass
class Tally:
    """Counters of the best `top_k` tokens of vectors in their clusters; with `neighbors` in the next ones, too.

    Vectors can be added at any time. Only pairs that were seen have a counter: C x V of them at most.
    """

    weight: Floats  # [C, D]
    bias: Floats  # [C]
    vocab: int
    top_k: int
    neighbors: bool = False
    rows: NDArray[np.int64] = field(init=False)  # [C] vectors of each cluster
    pair: NDArray[np.int64] = field(init=False)  # [n] cluster * vocab + token, ascending
    number: Ids = field(init=False)  # [n, 1 + m] how often, of vectors that the cluster is the 1st, 2nd, ... for

    def __post_init__(self) -> None:
        clusters = len(self.weight)
        columns = min(1 + len(NEAR), clusters) if self.neighbors else 1
        self.rows, self.pair = np.zeros(clusters, np.int64), np.empty(0, np.int64)
        self.number = np.empty((0, columns), np.int32)

    def add(self, hidden: Floats, top: Ids) -> Ids:
        """Count vectors `hidden` [n, D] with exact best tokens `top` [n, k], k >= top_k; the cluster of each [n]."""
        clusters = nearest(hidden, self.weight, self.bias, self.number.shape[1])
        self.rows += np.bincount(clusters[:, 0], minlength=len(self.rows))
        pairs = clusters.T[:, :, None].astype(np.int64) * self.vocab + top[:, : self.top_k]  # [1 + m, n, k]
        seen = [np.unique(column, return_counts=True) for column in pairs]
        every = np.unique(np.concatenate([pair for pair, _ in seen]))
        place = np.searchsorted(self.pair, every)
        new = every != np.append(self.pair, -1)[place]
        self.number = np.insert(self.number, place[new], 0, axis=0)
        self.pair = np.insert(self.pair, place[new], every[new])
        for column, (pair, times) in enumerate(seen):
            self.number[np.searchsorted(self.pair, pair), column] += times.astype(np.int32)
        return clusters[:, 0]

    def counts(self, always: Ids) -> Counts:
        """Needs of each cluster; every vector needs the tokens `always`: they stand in each set."""
        rows = np.maximum(self.rows, 1)
        forced = np.arange(len(rows))[:, None] * self.vocab + always
        pairs = np.union1d(self.pair, forced)
        number = np.zeros((len(pairs), self.number.shape[1]), np.int64)
        number[np.searchsorted(pairs, self.pair)] = self.number
        place = np.searchsorted(pairs, forced)
        number[place, 0], number[place, 1:] = rows[:, None], 0
        near = number[:, 1:] @ np.array(NEAR[: number.shape[1] - 1])
        cluster, token = np.divmod(pairs, self.vocab)
        return Counts(rows, cluster.astype(np.int32), token.astype(np.int32), number[:, 0], near)


def knapsack(counts: Counts, budget: float) -> NDArray[np.bool_]:
    """Which pairs to keep [n], so that the average set over the fitting vectors has at most `budget` tokens.

    A pair's value is the misses that it takes off the loss of L2S eq. 6; its weight, the share of vectors whose set it
    enlarges. Greedy by value over weight, which is the order of `share`, until one does not fit; equal ones by cluster,
    then token. (The lambda of eq. 6, for each useless token, keeps this order.) A budget of 0 has no end: every token
    that was seen is kept.
    """
    weight = counts.rows[counts.cluster] / counts.rows.sum()
    order = np.argsort(-counts.share, kind="stable")
    fits = np.cumsum(weight[order]) <= budget + 1e-9 if budget else np.ones(len(order), np.bool_)
    fits |= (counts.count >= counts.rows[counts.cluster])[order]  # what every vector needs is kept
    selection = np.zeros(len(order), np.bool_)
    selection[order] = fits
    return selection


def screen_of(weight: Floats, bias: Floats, counts: Counts, selection: NDArray[np.bool_]) -> Screen:
    """The screen of these clusters that keeps the selected pairs."""
    size = np.bincount(counts.cluster[selection], minlength=len(weight))
    start = np.concatenate([[0], np.cumsum(size)]).astype(np.int32)
    return Screen(weight, bias, start, counts.token[selection])


def widen(screen: Screen, rows: NDArray[np.int64], share: Floats, budget: float) -> Screen:
    """`screen` with the tokens that are most likely elsewhere, until the average set has `budget` tokens.

    `rows` [C] vectors are in the clusters, and `share` [C, V] is how likely each token is there. These tokens are
    hardly ever among the best: what they take off is the error of a normalizer that only guesses them.
    """
    clusters, vocab = share.shape
    size = np.diff(screen.start)
    inside = np.arange(clusters).repeat(size) * vocab + screen.token
    likely = share.ravel().copy()
    likely[inside] = 0
    places = np.flatnonzero(likely)
    places = places[np.argsort(-likely[places], kind="stable")]
    part = rows / rows.sum()
    rest = budget - float((size * part).sum())
    more = places[np.cumsum(part[places // vocab]) <= rest]
    every = np.sort(np.concatenate([inside, more]))
    start = np.searchsorted(every, np.arange(clusters + 1) * vocab).astype(np.int32)
    return Screen(screen.weight, screen.bias, start, (every % vocab).astype(np.int32))


def membership(screen: Screen, label: Ids, top: Ids, vocab: int) -> NDArray[np.bool_]:
    """Whether each token of `top` [n, k] is in the set of its row's cluster `label` [n]: [n, k]."""
    keys = np.arange(len(screen.weight)).repeat(np.diff(screen.start)) * vocab + screen.token  # ascending
    pairs = label[:, None].astype(np.int64) * vocab + top
    place = np.minimum(np.searchsorted(keys, pairs), len(keys) - 1)
    return np.asarray(keys[place] == pairs)
