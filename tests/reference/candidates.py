"""Candidates of hidden vectors in NumPy, in float64: what the kernels for GPUs and their PyTorch form are held to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sharpbeam.types import Floats, Ids


class Candidates(NamedTuple):
    """The k best tokens of each row, ties by lower id, and the log-sum-exp over all that were scored."""

    logit: Floats  # [R, k]; -inf where there are fewer tokens
    token: Ids  # [R, k]; 0 there
    log_sum: NDArray[np.float64]  # [R]


def best(hidden: Floats, weight: Floats, bias: Floats, k: int, token: Ids | None = None) -> Candidates:
    """Score the given tokens, or all: one row after the other."""
    token = np.arange(len(weight), dtype=np.int32) if token is None else token
    rows = [_best_of_row(h, weight[token], bias[token], k, token) for h in hidden]
    return Candidates(*(np.array(column) for column in zip(*rows, strict=True)))


def union(cluster: Ids, token: Ids, start: Ids) -> Ids:
    """The tokens in the sets of any of the clusters, ascending."""
    return np.unique(np.concatenate([token[:0], *(token[start[c] : start[c + 1]] for c in cluster)]))


def nearest(hidden: Floats, centroid: Floats, k: int) -> Ids:
    """The k nearest centroids of each row by |C|^2 - 2 h C (CVP section 2.3), ties by lower id."""
    distance = (centroid.astype(np.float64) ** 2).sum(1) - 2 * hidden.astype(np.float64) @ centroid.T
    return np.argsort(distance, axis=1, kind="stable")[:, :k].astype(np.int32)


def attend(
    query: Floats, keys: Floats, values: Floats, scale: float, bias: Floats | None = None
) -> NDArray[np.float64]:
    """One query [H, width] to keys and values [T, H, width], with a bias [H, T] on the scores: [H, width]."""
    score = np.einsum("hw,thw->ht", query.astype(np.float64), keys) * scale + (0.0 if bias is None else bias)
    weight = np.exp(score - score.max(1, keepdims=True))
    answer: NDArray[np.float64] = np.einsum("ht,thw->hw", weight / weight.sum(1, keepdims=True), values)
    return answer


def _best_of_row(
    h: Floats, weight: Floats, bias: Floats, k: int, token: Ids
) -> tuple[NDArray[np.float32], Ids, np.float64]:
    logit = (weight.astype(np.float64) @ h.astype(np.float64) + bias).astype(np.float32)
    order = np.lexsort((token, -logit))[:k]
    best_logit, best_token = np.full(k, -np.inf, np.float32), np.zeros(k, np.int32)
    best_logit[: len(order)], best_token[: len(order)] = logit[order], token[order]
    return best_logit, best_token, np.logaddexp.reduce(logit.astype(np.float64), initial=-np.inf)
