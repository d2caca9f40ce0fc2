"""The tail of a screen: what the words outside a set weigh, predicted from the hidden vector (in place of L2S-12).

With Z the sum of exp(logit) over all words and Z_in over the set, log Z = log(Z_in + exp t) where t = log(Z - Z_in). t
is a log-sum-exp of products with h, so it is nearly linear in h where h varies little: within a cluster. Words whose
logits rise and fall together are one piece of it, and the sum over the pieces bends as t does: a piece is the mean of
its words' rows of the output matrix, each as heavy as the word is likely in the cluster. What is left is fitted by a
regression for each cluster, drawn to that of all clusters where it has few rows. An error of t counts as much in log Z
as the share of the words outside, and that share is the weight.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sharpbeam.fit.screen.output import NEVER, Output
from sharpbeam.output_layers.screen import Signs
from sharpbeam.types import FallbackTest, Floats, Ids, Screen, Tail

PIECES = 16
SAMPLED = 48  # rows of a cluster whose probabilities are looked at
GROUPED = 4096  # words outside, the most likely ones, that make up the pieces
TURNS = 8  # of grouping
LEAST_SHARE = 1e-6  # of the words outside: below it float32 does not tell it from none
LEAST_WEIGHT = 1e-4
RIDGE = 1e-3  # of the variances, for all clusters together
FURTHEST = 5.0  # that the log of the residual mass is shifted by, at most
PRIOR = 30.0  # rows of mean weight that a cluster is drawn to all clusters by
Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Mass:
    """What the clusters' words weigh, over some rows of each."""

    rows: list[Floats]  # of each cluster: hidden vectors [n, D], none where it has none
    total: list[Floats]  # and log Z [n] of each
    share: Floats  # [C, V] mean probability of each word


def weigh(hidden: Floats, total: Floats, label: Ids, clusters: int, output: Output) -> Mass:
    """Look at some of the rows `hidden` [n, D] with log Z `total` [n], which are in clusters `label` [n]."""
    order = np.argsort(label, kind="stable")
    start = np.searchsorted(label[order], np.arange(clusters + 1))
    share = np.zeros((clusters, len(output.bias)), np.float32)
    rows, totals = list[Floats](), list[Floats]()
    for cluster in range(clusters):
        own = order[start[cluster] : start[cluster + 1]]
        own = own[np.linspace(0, len(own) - 1, min(len(own), SAMPLED)).astype(np.int64)]
        rows.append(hidden[own])
        totals.append(total[own])
        if len(own):
            share[cluster] = np.exp(rows[-1] @ output.weight.T + output.bias - totals[-1][:, None]).mean(axis=0)
    return Mass(rows, totals, share)


def complete(screen: Screen, output: Output, mass: Mass, hidden: Floats, total: Floats) -> Screen:
    """`screen` with the tail for its sets, fitted on `hidden` [n, D] with log Z `total` [n]."""
    clusters = len(screen.weight)
    nothing = Tail(np.zeros_like(screen.weight)[:, None], np.full((clusters, 1), -NEVER, np.float32))
    test = FallbackTest(np.zeros_like(screen.weight), 1, np.inf, 0.0, 0.0, 0.0)
    signs = Signs(output.weight, output.bias, replace(screen, tail=nothing, doubt=test), hidden)
    return replace(screen, tail=fit_tail(hidden, signs.cluster, pieces(screen, output, mass), signs.total, total))


def rescale(screen: Screen, output: Output, hidden: Floats, total: Floats) -> Screen:
    """`screen` with its residual mass multiplied so that probabilities sum to 1 on average over fresh rows.

    `hidden` [n, D] with log Z `total` [n] are rows that neither the sets nor the regressions were fitted on. On fresh
    rows sets miss more than on those that they were chosen by, so that the residual mass is too small, Z with it, and
    a step's probabilities, exp(logit) / Z over all tokens, sum to more than 1. By Jensen's inequality a mean sum of 1
    also keeps the perplexity of any text at or above the exact layer's, but for the noise of the rows.
    """
    assert screen.tail is not None
    test = screen.doubt or FallbackTest(np.zeros_like(screen.weight), 1, np.inf, 0.0, 0.0, 0.0)
    signs = Signs(output.weight, output.bias, replace(screen, doubt=test), hidden)
    outside, found, exact = (np.float64(values) for values in (signs.tail, signs.total, total))
    inside = found + np.log1p(-np.exp(np.minimum(outside - found, -1e-12)))
    low, high = -FURTHEST, FURTHEST  # of the factor's log; the mean sum falls with it
    for _ in range(50):
        middle = (low + high) / 2
        if np.exp(exact - np.logaddexp(inside, outside + middle)).mean() > 1:
            low = middle
        else:
            high = middle
    return replace(screen, tail=replace(screen.tail, bias=screen.tail.bias + np.float32(high)))


def pieces(screen: Screen, output: Output, mass: Mass) -> Tail:
    """The words outside each set in groups, as `mass` says before anything is fitted."""
    clusters, dim = screen.weight.shape
    weight = np.zeros((clusters, PIECES, dim), np.float32)
    bias = np.full((clusters, PIECES), -np.float32(NEVER), np.float32)
    for cluster, (rows, total) in enumerate(zip(mass.rows, mass.total, strict=True)):
        share = mass.share[cluster].copy()
        share[screen.token[screen.start[cluster] : screen.start[cluster + 1]]] = 0
        words = np.argpartition(-share, min(GROUPED, len(share) - 1))[:GROUPED]
        words = words[share[words] > 0]
        if not len(words):
            bias[cluster, 0] = np.log(LEAST_SHARE)
            continue
        scale = share.sum(dtype=np.float64) / share[words].sum(dtype=np.float64)
        moves = (output.weight[words] @ (rows - rows.mean(axis=0)).T).astype(np.float64)  # [words, n]
        group = _group(moves, share[words].astype(np.float64))
        for piece in range(group.max() + 1):
            own = words[group == piece]
            if len(own):
                weight[cluster, piece] = np.average(output.weight[own], axis=0, weights=share[own])
                logit = (rows @ weight[cluster, piece] - total).astype(np.float64)
                mean = np.logaddexp.reduce(logit) - np.log(len(logit))
                bias[cluster, piece] = np.log(scale * share[own].sum(dtype=np.float64)) - mean
    return Tail(weight, bias)


def _group(moves: Doubles, share: Doubles) -> NDArray[np.int64]:
    """Which piece each word is in [n]: k-means of how logits move over some rows [n, rows], words weighing `share`."""
    draw = np.random.default_rng(1)
    count = min(PIECES, len(moves))
    center = moves[draw.choice(len(moves), count, replace=False, p=share / share.sum())]
    group = np.zeros(len(moves), np.int64)
    for _ in range(TURNS):
        group = np.argmax(moves @ center.T - 0.5 * (center**2).sum(axis=1), axis=1)
        weight = np.zeros((count, len(moves)))
        weight[group, np.arange(len(moves))] = share
        filled = weight.any(axis=1)
        center[filled] = (weight[filled] @ moves) / weight[filled].sum(axis=1)[:, None]
    return group


def fit_tail(hidden: Floats, label: Ids, start: Tail, inside: Floats, total: Floats) -> Tail:
    """`start` with what it lacks, for rows `hidden` [n, D] of clusters `label` [n], from log Z_in and log Z, both [n].

    The regressions are added to all pieces of a cluster.
    """
    clusters = len(start.weight)
    share = np.clip(-np.expm1(np.float64(inside) - total), LEAST_SHARE, 1.0)
    order = np.argsort(label, kind="stable")
    bounds = np.searchsorted(label[order], np.arange(clusters + 1))
    target, weight = np.log(share) + total, share + LEAST_WEIGHT
    for cluster in range(clusters):
        own = order[bounds[cluster] : bounds[cluster + 1]]
        logits = hidden[own] @ start.weight[cluster].T + start.bias[cluster]
        target[own] -= np.logaddexp.reduce(logits.astype(np.float64), axis=1)
    mean = np.average(hidden, axis=0, weights=weight).astype(np.float32)
    rows = np.concatenate([hidden - mean, np.ones((len(hidden), 1), np.float32)], axis=1)  # [n, D + 1]
    square, product = _moments(rows, target, weight)
    common = np.linalg.solve(square + RIDGE * np.diag(np.diag(square)) + 1e-9 * np.eye(len(square)), product)
    rest = target - rows @ common
    prior = PRIOR / len(rows) * square + 1e-9 * np.trace(square) / len(square) * np.eye(len(square))
    tail = np.tile(common, (clusters, 1))  # [C, D + 1]
    for cluster in range(clusters):
        own = order[bounds[cluster] : bounds[cluster + 1]]
        square, product = _moments(rows[own], rest[own], weight[own])
        tail[cluster] += np.linalg.solve(square + prior, product)
    slope = tail[:, :-1]
    moved = (start.weight + slope[:, None]).astype(np.float32)
    return Tail(moved, np.maximum(start.bias + (tail[:, -1] - slope @ mean)[:, None], -NEVER).astype(np.float32))


def _moments(rows: Floats, target: Doubles, weight: Doubles) -> tuple[Doubles, Doubles]:
    """Weighted X'X [D, D] and X'y [D] of `rows` [n, D] and `target` [n]."""
    weighted = rows * weight.astype(np.float32)[:, None]
    return (weighted.T @ rows).astype(np.float64), (weighted.T @ target.astype(np.float32)).astype(np.float64)
