"""k-means, Euclidean (CVP-1) and spherical (L2S-4): plain Lloyd iterations on BLAS matmuls.

It is our own because it is short, its result depends on the seed alone, and fitting then needs no more than NumPy; with
Faiss, a fit would need a package of 30 MB for the same centroids.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sharpbeam.types import Floats, Ids

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
    label = np.empty(len(rows), np.int32)
    for first in range(0, len(rows), BLOCK):
        label[first : first + BLOCK] = _scores(rows[first : first + BLOCK], weight, bias).argmax(axis=1)
    return label


def nearby(rows: Floats, weight: Floats, bias: Floats, count: int) -> Ids:
    """The clusters of each of `rows` [n, D] that come after its own, best first: [n, count]; count < C."""
    clusters = np.empty((len(rows), count), np.int32)
    for first in range(0, len(rows), BLOCK):
        scores = _scores(rows[first : first + BLOCK], weight, bias)
        for column in range(count + 1):  # of a few columns; a partition and a sort take longer
            best = scores.argmax(axis=1)
            if column:
                clusters[first : first + BLOCK, column - 1] = best
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


def _scores(rows: Floats, weight: Floats, bias: Floats) -> Floats:
    scores: Floats = rows @ weight.T
    scores += bias
    return scores


def _affine(centroids: Floats, spherical: bool) -> tuple[Floats, Floats]:
    if spherical:
        return _unit(centroids), np.zeros(len(centroids), np.float32)
    return centroids, np.float32(-0.5) * np.einsum("cd,cd->c", centroids, centroids)


def _unit(rows: Floats) -> Floats:
    """Rows of length one; a row of zeros stays."""
    length = np.sqrt(np.einsum("nd,nd->n", rows, rows))
    unit: Floats = rows / np.maximum(length, np.finfo(np.float32).tiny)[:, None]
    return unit
