"""k-means, Euclidean (CVP-1) and spherical (L2S-4): plain Lloyd iterations on BLAS products.

It is our own because it is short, its answer depends on the seed alone, and fitting then needs no more than NumPy; with
Faiss, a fit would need a package of 30 MB for the same centroids.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sharpbeam.types import Floats, Ids

BLOCK = 8192  # rows whose scores are held at a time
ITERATIONS = 20  # as in CVP
SAMPLE = 1000  # rows for each cluster that the iterations use, at most


def kmeans(rows: Floats, clusters: int, seed: int, spherical: bool = False) -> tuple[Floats, Floats]:
    """Clusters of `rows` [n, D] as weight [C, D] and bias [C]: a row belongs to argmax of rows @ weight.T + bias.

    Euclidean: weight = centroids, bias = -|centroid|^2 / 2. Spherical: unit vectors and no bias, by the cosine. The
    first centroids are different rows drawn by `seed`; a cluster that runs empty moves to a row that is drawn anew.
    """
    draw = np.random.default_rng(seed)
    sample = rows[np.sort(draw.permutation(len(rows))[: clusters * SAMPLE])]
    if spherical:
        sample = _unit(sample)
    weight = _affine(sample[draw.permutation(len(sample))[:clusters]], spherical)
    for _ in range(ITERATIONS):
        label = assign(sample, *weight)
        weight = _affine(_means(sample, label, clusters, draw), spherical)
    return weight


def assign(rows: Floats, weight: Floats, bias: Floats) -> Ids:
    """The cluster of each of `rows` [n, D], [n] int32: the largest rows @ weight.T + bias, the lowest on ties."""
    label = np.empty(len(rows), np.int32)
    for first in range(0, len(rows), BLOCK):
        label[first : first + BLOCK] = np.argmax(rows[first : first + BLOCK] @ weight.T + bias, axis=1)
    return label


def nearby(rows: Floats, weight: Floats, bias: Floats, count: int) -> Ids:
    """The clusters of each of `rows` [n, D] that come after its own, best first: [n, count]; count < C."""
    found = np.empty((len(rows), count), np.int32)
    for first in range(0, len(rows), BLOCK):
        scores = rows[first : first + BLOCK] @ weight.T + bias
        best = np.argpartition(-scores, count, axis=1)[:, : count + 1]
        order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1, kind="stable")
        found[first : first + BLOCK] = np.take_along_axis(best, order, axis=1)[:, 1:]
    return found


def _means(rows: Floats, label: Ids, clusters: int, draw: np.random.Generator) -> Floats:
    """Mean of the rows of each cluster [C, D]; a row drawn at random where there is none."""
    order = np.argsort(label, kind="stable")
    size = np.bincount(label, minlength=clusters)
    filled = np.flatnonzero(size)
    start = np.concatenate([[0], np.cumsum(size)[:-1]])[filled]
    means = rows[draw.integers(0, len(rows), clusters)]
    for k in range(rows.shape[1]):  # a column at a time: a sorted copy of all rows would double the memory
        column: NDArray[np.float64] = np.add.reduceat(rows[order, k], start, dtype=np.float64)
        means[filled, k] = column / size[filled]
    return means


def _affine(centroids: Floats, spherical: bool) -> tuple[Floats, Floats]:
    if spherical:
        return _unit(centroids), np.zeros(len(centroids), np.float32)
    return centroids, np.float32(-0.5) * np.einsum("cd,cd->c", centroids, centroids)


def _unit(rows: Floats) -> Floats:
    """Rows of length one; a row of zeros stays."""
    length = np.sqrt(np.einsum("nd,nd->n", rows, rows))
    unit: Floats = rows / np.maximum(length, np.finfo(np.float32).tiny)[:, None]
    return unit
