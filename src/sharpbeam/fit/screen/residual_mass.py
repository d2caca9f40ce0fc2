"""The residual mass of a screen: the sum over the tokens outside a set, predicted from the hidden vector.

With Z the sum of exp(logit) over all tokens and Z_in over the set, log Z = log(Z_in + exp t), t = log(Z - Z_in). L2S
(L2S-12) takes low-rank logits of every token for t; this takes a few dot products. t is a log-sum-exp of dot products
with h, so it is nearly linear in h where h varies little: within a cluster. Tokens whose logits rise and fall together
are one component of it, and the sum over the components bends as t does. A component is the mean of its tokens' rows of
the output matrix, each weighted by how likely the token is in the cluster. What is left is fitted by a regression for
each cluster, shrunk towards that of all clusters where it has few rows. An error of t counts in log Z by the share of
the tokens outside, and that share is the weight of a row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sharpbeam.fit.collect import OutputMatrix, log_sum_exp
from sharpbeam.fit.screen.clusters import members
from sharpbeam.output_layers.screen import FallbackFeatures, ResidualMass, Screen
from sharpbeam.types import Floats, Ids

NEVER = float(np.finfo(np.float32).max)  # a threshold with which every row falls back; with its negative none does
COMPONENTS = 16  # of a cluster
SAMPLED = 48  # rows of a cluster whose probabilities are computed
GROUPED = 4096  # tokens outside, the most likely ones, that make up the components
ITERATIONS = 8  # of grouping
LEAST_SHARE = 1e-6  # of the tokens outside: below it float32 does not tell it from none
LEAST_WEIGHT = 1e-4
RIDGE = 1e-3  # of the variances, for all clusters together
FURTHEST = 5.0  # that the log of the residual mass is shifted by, at most
PRIOR = 30.0  # rows of mean weight that draw a cluster's regression to that of all
Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Mass:
    """Probabilities of tokens in the clusters, over some rows of each."""

    rows: list[Floats]  # of each cluster: hidden vectors [n, D], none where it has none
    total: list[Floats]  # and log Z [n] of each
    share: Floats  # [C, V] mean probability of each token


def weigh(hidden: Floats, total: Floats, label: Ids, clusters: int, output: OutputMatrix) -> Mass:
    """Probabilities over some of the rows `hidden` [n, D] with log Z `total` [n], in clusters `label` [n]."""
    share = np.zeros((clusters, len(output.bias)), np.float32)
    rows, totals = list[Floats](), list[Floats]()
    for cluster, every in enumerate(members(label, clusters)):
        own = every[np.linspace(0, len(every) - 1, min(len(every), SAMPLED)).astype(np.int64)]
        rows.append(hidden[own])
        totals.append(total[own])
        if len(own):
            logits = rows[-1] @ output.weight.T
            logits += output.bias
            logits -= totals[-1][:, None]
            share[cluster] = np.exp(logits, out=logits).mean(axis=0)
    return Mass(rows, totals, share)


def complete(screen: Screen, output: OutputMatrix, mass: Mass, hidden: Floats, total: Floats) -> Screen:
    """`screen` with the residual mass outside its sets, fitted on `hidden` [n, D] with log Z `total` [n]."""
    clusters = len(screen.weight)
    nothing = ResidualMass(np.zeros_like(screen.weight)[:, None], np.full((clusters, 1), -NEVER, np.float32))
    features = FallbackFeatures(output.weight, output.bias, replace(screen, residual=nothing), hidden)
    start = components(screen, output, mass)
    return replace(screen, residual=fit_residual(hidden, features.cluster, start, features.log_total, total))


def rescale(screen: Screen, output: OutputMatrix, hidden: Floats, total: Floats) -> Screen:
    """`screen` with its residual mass multiplied so that probabilities sum to 1 on average over fresh steps.

    `hidden` [n, D] with log Z `total` [n] are steps that neither the sets nor the regressions were fitted on. On fresh
    steps sets miss more than on those that they were chosen by, so that the residual mass is too small, Z with it, and
    a step's probabilities, exp(logit) / Z over all tokens, sum to more than 1. By Jensen's inequality a mean sum of 1
    also keeps the perplexity of any text at or above the exact layer's, but for the noise of the steps.
    """
    assert screen.residual is not None
    features = FallbackFeatures(output.weight, output.bias, screen, hidden)
    outside, predicted, exact = (np.float64(values) for values in (features.log_mass, features.log_total, total))
    inside = predicted + np.log1p(-np.exp(np.minimum(outside - predicted, -1e-12)))
    low, high = -FURTHEST, FURTHEST  # of the factor's log; the mean sum falls with it
    for _ in range(50):
        middle = (low + high) / 2
        if np.exp(exact - np.logaddexp(inside, outside + middle)).mean() > 1:
            low = middle
        else:
            high = middle
    return replace(screen, residual=replace(screen.residual, bias=screen.residual.bias + np.float32(high)))


def components(screen: Screen, output: OutputMatrix, mass: Mass) -> ResidualMass:
    """The tokens outside each set in groups, as `mass` has them before anything is fitted."""
    clusters, dim = screen.weight.shape
    weight = np.zeros((clusters, COMPONENTS, dim), np.float32)
    bias = np.full((clusters, COMPONENTS), -np.float32(NEVER), np.float32)
    for cluster, (rows, total) in enumerate(zip(mass.rows, mass.total, strict=True)):
        share = mass.share[cluster].copy()
        share[screen.token[screen.start[cluster] : screen.start[cluster + 1]]] = 0
        tokens = np.argpartition(-share, min(GROUPED, len(share) - 1))[:GROUPED]
        tokens = tokens[share[tokens] > 0]
        if not len(tokens):
            bias[cluster, 0] = np.log(LEAST_SHARE)
            continue
        scale = share.sum(dtype=np.float64) / share[tokens].sum(dtype=np.float64)
        vectors, own = output.weight[tokens], share[tokens]
        group = _group(vectors @ (rows - rows.mean(axis=0)).T, own)
        held = group.sum(axis=1)  # [M] share of each component
        filled = held > 0
        weight[cluster, : len(held)][filled] = (group[filled] @ vectors) / held[filled, None]
        logit = (rows @ weight[cluster, : len(held)][filled].T - total[:, None]).astype(np.float64)
        mean = np.logaddexp.reduce(logit, axis=0) - np.log(len(logit))
        bias[cluster, : len(held)][filled] = np.log(scale * held[filled]) - mean
    return ResidualMass(weight, bias)


def _group(moves: Floats, share: Floats) -> Floats:
    """The share of each token in its component [M, n]: k-means of `moves` [n, rows] of logits, weighted by `share`."""
    draw = np.random.default_rng(1)
    count, tokens = min(COMPONENTS, len(moves)), np.arange(len(moves))
    chance = share.astype(np.float64)
    center = moves[draw.choice(len(moves), count, replace=False, p=chance / chance.sum())]
    weight = np.zeros((count, len(moves)), np.float32)
    for _ in range(ITERATIONS):
        group = np.argmax(moves @ center.T - 0.5 * (center**2).sum(axis=1), axis=1)
        weight[:] = 0
        weight[group, tokens] = share
        held = weight.sum(axis=1)
        filled = held > 0
        center[filled] = (weight[filled] @ moves) / held[filled, None]
    return weight


def fit_residual(hidden: Floats, label: Ids, start: ResidualMass, inside: Floats, total: Floats) -> ResidualMass:
    """`start` and regressions of what it lacks on `hidden` [n, D], which are added to all components of a cluster.

    `label` [n] are the rows' clusters, `inside` [n] their log Z_in, `total` [n] their log Z.
    """
    clusters = len(start.weight)
    share = np.clip(-np.expm1(np.float64(inside) - total), LEAST_SHARE, 1.0)
    rows_of = members(label, clusters)
    target, weight = np.log(share) + total, (share + LEAST_WEIGHT).astype(np.float32)
    for own, slopes, offsets in zip(rows_of, start.weight, start.bias, strict=True):
        target[own] -= log_sum_exp(hidden[own] @ slopes.T + offsets)
    mean = (weight @ hidden) / weight.sum()
    rows = np.empty((len(hidden), hidden.shape[1] + 1), np.float32)
    np.subtract(hidden, mean, out=rows[:, :-1])
    rows[:, -1] = 1
    square, product = _moments(rows, target, weight)
    common = np.linalg.solve(square + RIDGE * np.diag(np.diag(square)) + 1e-9 * np.eye(len(square)), product)
    rest = target - rows @ common.astype(np.float32)
    prior = PRIOR / len(rows) * square + 1e-9 * np.trace(square) / len(square) * np.eye(len(square))
    regression = np.tile(common, (clusters, 1))  # [C, D + 1]
    for cluster, own in enumerate(rows_of):
        square, product = _moments(rows[own], rest[own], weight[own])
        regression[cluster] += np.linalg.solve(square + prior, product)
    slope = regression[:, :-1]
    moved = (start.weight + slope[:, None]).astype(np.float32)
    bias = start.bias + (regression[:, -1] - slope @ mean)[:, None]
    return ResidualMass(moved, np.maximum(bias, -NEVER).astype(np.float32))


def _moments(rows: Floats, target: Doubles, weight: Floats) -> tuple[Doubles, Doubles]:
    """Weighted X'X [D, D] and X'y [D] of `rows` [n, D] and `target` [n]."""
    root = np.sqrt(weight)
    scaled = rows * root[:, None]
    product = scaled.T @ (target * root).astype(np.float32)
    return (scaled.T @ scaled).astype(np.float64), product.astype(np.float64)  # the first by BLAS's syrk: half the work
