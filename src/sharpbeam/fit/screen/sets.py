"""Candidate sets: which tokens each cluster keeps (L2S section 3.2; CVP section 2.2).

A cluster meets tokens that none of its own vectors needed, and most of these were needed by vectors nearby. So, beyond
the papers, the tokens of a vector count a little in the clusters that come after its own too (`NEAR`): sets
can be larger than what was seen, by the tokens most likely to be needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sharpbeam.output_layers.screen import Screen
from sharpbeam.types import Floats, Ids

NEAR = (0.1, 0.05, 0.03, 0.02)  # what a vector counts in the clusters after its own, best first


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


def count(label: Ids, top: Ids, clusters: int, vocab: int, always: Ids, nearby: Ids | None = None) -> Counts:
    """Count for rows with clusters `label` [n] and exact top k `top` [n, k]; `nearby` [n, m] are the next clusters.

    The tokens `always` are needed by every vector: whatever the budget, they stand in each set.
    """
    rows = np.maximum(np.bincount(label, minlength=clusters), 1)
    forced = (np.arange(clusters)[:, None] * vocab + always).ravel()
    own, number = _pairs(label, top, vocab, always)
    own, number = np.concatenate([own, forced]), np.concatenate([number, rows.repeat(len(always))])
    others = [] if nearby is None else [_pairs(column, top, vocab, always) for column in nearby.T]
    pairs, place = np.unique(np.concatenate([own, *(pair for pair, _ in others)]), return_inverse=True)
    counts, near, at = np.zeros(len(pairs), np.int64), np.zeros(len(pairs)), len(own)
    counts[place[:at]] = number
    for weight, (pair, times) in zip(NEAR, others, strict=False):
        near[place[at : at + len(pair)]] += weight * times
        at += len(pair)
    return Counts(rows, (pairs // vocab).astype(np.int32), (pairs % vocab).astype(np.int32), counts, near)


def _pairs(label: Ids, top: Ids, vocab: int, without: Ids) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each pair of cluster and token, as cluster * vocab + token, and how often; not those of the tokens `without`."""
    pairs, number = np.unique(label[:, None].astype(np.int64) * vocab + top, return_counts=True)
    other = ~np.isin(pairs % vocab, without)
    return pairs[other], number[other]


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
