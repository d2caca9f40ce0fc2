"""The tail of a screen: what the words outside a set weigh, predicted from the hidden vector (in place of L2S-12).

With Z the sum of exp(logit) over all words and Z_in over the set, log Z = log(Z_in + exp t) where t = log(Z - Z_in). t
is a log-sum-exp of products with h, so it is nearly linear in h where h varies little: within a cluster. Each cluster
has a regression of its own, drawn to that of all clusters where it has few rows. An error of t counts as much in log Z
as the share of the words outside, and that share is the weight.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quickbeam.types import Floats, Ids, Tail

LEAST_SHARE = 1e-6  # of the words outside: below it float32 does not tell it from none
LEAST_WEIGHT = 1e-4
RIDGE = 1e-3  # of the variances, for all clusters together
PRIOR = 30.0  # rows of mean weight that a cluster is drawn to all clusters by
Doubles = NDArray[np.float64]


def fit_tail(hidden: Floats, label: Ids, clusters: int, inside: Floats, total: Floats) -> Tail:
    """The tail for rows `hidden` [n, D] of clusters `label` [n], from log Z_in and log Z, both [n]."""
    share = np.clip(-np.expm1(np.float64(inside) - total), LEAST_SHARE, 1.0)
    target, weight = np.log(share) + total, share + LEAST_WEIGHT
    mean = np.average(hidden, axis=0, weights=weight).astype(np.float32)
    rows = np.concatenate([hidden - mean, np.ones((len(hidden), 1), np.float32)], axis=1)  # [n, D + 1]
    square, product = _moments(rows, target, weight)
    common = np.linalg.solve(square + RIDGE * np.diag(np.diag(square)) + 1e-9 * np.eye(len(square)), product)
    rest = target - rows @ common
    prior = PRIOR / len(rows) * square + 1e-9 * np.trace(square) / len(square) * np.eye(len(square))
    tail = np.tile(common, (clusters, 1))  # [C, D + 1]
    order = np.argsort(label, kind="stable")
    start = np.searchsorted(label[order], np.arange(clusters + 1))
    for cluster in range(clusters):
        own = order[start[cluster] : start[cluster + 1]]
        square, product = _moments(rows[own], rest[own], weight[own])
        tail[cluster] += np.linalg.solve(square + prior, product)
    slope = tail[:, :-1]
    return Tail(slope.astype(np.float32), (tail[:, -1] - slope @ mean).astype(np.float32))


def _moments(rows: Floats, target: Doubles, weight: Doubles) -> tuple[Doubles, Doubles]:
    """Weighted X'X [D, D] and X'y [D] of `rows` [n, D] and `target` [n]."""
    weighted = rows * weight.astype(np.float32)[:, None]
    return (weighted.T @ rows).astype(np.float64), (weighted.T @ target.astype(np.float32)).astype(np.float64)
