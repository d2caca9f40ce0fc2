"""Candidate sets: which words each cluster keeps (L2S section 3.2; CVP section 2.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quickbeam.types import Floats, Ids, Screen


@dataclass(frozen=True)
class Counts:
    """How often each word is among the top k of the vectors of each cluster; one entry for each pair that was seen."""

    rows: NDArray[np.int64]  # [C] vectors of each cluster
    cluster: Ids  # [n] ascending
    token: Ids  # [n] ascending within a cluster
    count: NDArray[np.int64]  # [n]

    @property
    def share(self) -> NDArray[np.float64]:
        """Share of the cluster's vectors that need the word [n]."""
        return self.count / self.rows[self.cluster]

    @property
    def everything(self) -> float:
        """The average set over the fitting vectors, if every word that was seen is kept."""
        return float(self.rows[self.cluster].sum() / self.rows.sum())


def count(label: Ids, top: Ids, clusters: int, vocab: int, always: Ids) -> Counts:
    """Count for rows with clusters `label` [n] and exact top k `top` [n, k].

    The words `always` are needed by every vector: whatever the budget, they stand in each set.
    """
    key = (label[:, None].astype(np.int64) * vocab + top).ravel()
    key, number = np.unique(key, return_counts=True)
    key, number = key[~np.isin(key % vocab, always)], number[~np.isin(key % vocab, always)]
    rows = np.bincount(label, minlength=clusters)
    forced = (np.arange(clusters)[:, None] * vocab + always).ravel()
    key = np.concatenate([key, forced])
    number = np.concatenate([number, np.maximum(rows, 1).repeat(len(always))])
    order = np.argsort(key)
    pairs, rows = key[order], np.maximum(rows, 1)
    return Counts(rows, (pairs // vocab).astype(np.int32), (pairs % vocab).astype(np.int32), number[order])


def knapsack(counts: Counts, budget: float) -> NDArray[np.bool_]:
    """Which pairs to keep [n], so that the average set over the fitting vectors has at most `budget` words.

    A pair's value is the misses that it takes off the loss of L2S eq. 6; its weight, the share of vectors whose set it
    enlarges. Greedy by value over weight, which is the order of `share`, until one does not fit; equal ones by cluster,
    then word. (The lambda of eq. 6, for each useless word, keeps this order.) A budget of 0 has no end: every word that
    was seen is kept.
    """
    weight = counts.rows[counts.cluster] / counts.rows.sum()
    order = np.argsort(-counts.share, kind="stable")
    fits = np.cumsum(weight[order]) <= budget + 1e-9 if budget else np.ones(len(order), np.bool_)
    fits |= counts.share[order] >= 1.0  # what every vector needs is kept
    kept = np.zeros(len(order), np.bool_)
    kept[order] = fits
    return kept


def screen_of(weight: Floats, bias: Floats, counts: Counts, kept: NDArray[np.bool_]) -> Screen:
    """The screen of these clusters that keeps the chosen pairs."""
    size = np.bincount(counts.cluster[kept], minlength=len(weight))
    start = np.concatenate([[0], np.cumsum(size)]).astype(np.int32)
    return Screen(weight, bias, start, counts.token[kept])


def membership(screen: Screen, label: Ids, top: Ids, vocab: int) -> NDArray[np.bool_]:
    """Whether each word of `top` [n, k] is in the set of its row's cluster `label` [n]: [n, k]."""
    keys = np.arange(len(screen.weight)).repeat(np.diff(screen.start)) * vocab + screen.token  # ascending
    wanted = label[:, None].astype(np.int64) * vocab + top
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.asarray(keys[place] == wanted)
