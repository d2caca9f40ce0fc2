"""Adaptive softmax at inference (Grave et al., ICML 2017, "Efficient softmax approximation for GPUs").

Words stand in the order of their frequency. The most frequent ones are the *head*; the others are cut into *tails*,
each of which has one token in the head. A tail is gone down into only where its token is among the best of the head.

Grave et al. train the head, its tokens and the narrower tails together with the model, and L2S fine-tunes the head. A
model that is given has neither, so here the words keep the rows that they have, which makes their logits exact, and
the token of a tail is the ridge regression, on sampled hidden vectors, of the highest logit in the tail: it says
whether a word of the tail is likely to be among the best. (The mass of the tail, which a trained token holds, would be
a poor sign: thousands of words that are all unlikely outweigh one good one.) With `trained`, the tokens are then
trained for what they are for: by gradient descent on the logistic loss of whether one of the K best words is in the
tail. The words' own rows stay those of the model, so that their logits are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from bench.baselines.candidates import (
    CandidateLayer,
    check_layer,
    in_range,
    largest,
    log_sum_exp,
    need_samples,
)
from sharpbeam.types import Floats, Ids

ROWS = 256  # samples whose logits are in memory at once
RIDGE = 1e-3  # of the samples' mean squared coordinate
K = 5  # best words of a sample that must be found
MISSED = 20.0  # what a tail that is wrongly left out costs, against one that is gone down into for nothing


class AdaptiveSoftmaxLayer(CandidateLayer):
    """Exact logits of the head's words, and of the words of the tails that are gone down into."""

    def __init__(
        self, weight: Floats, bias: Floats, head: Ids, tails: Sequence[Ids], tokens: Floats, depth: int
    ) -> None:
        """Words of the head and of each of T tails, ascending; `tokens` [T, D + 1] are the tails' rows and biases."""
        super().__init__(weight, bias)
        self._head, self._tails, self._tokens, self._depth = head, tails, tokens, min(depth, len(head))
        self._head_rows, self._tail_rows = (weight[head], bias[head]), [(weight[tail], bias[tail]) for tail in tails]

    @classmethod
    def build(
        cls,
        weight: Floats,
        bias: Floats,
        samples: Floats | None = None,
        *,
        head: int = 2000,
        tails: int = 4,
        depth: int = 5,
        trained: bool = False,
    ) -> AdaptiveSoftmaxLayer:
        """Cut the words of the output matrix [V, D] with bias [V] by how often they are the best of samples [N, D].

        Dials: `head`, the number of words in the head, 1 to V: with V it is the full softmax; `tails`, 1 or more, each
        larger than the one before by one factor; `depth`, 1 or more: a tail is gone down into where fewer than `depth`
        words of the head have higher logits than its token; more than `head` count as `head`. `trained`: see above.
        """
        check_layer(weight, bias)
        full = _SampledLayer(weight, bias, need_samples("adaptive softmax", samples, weight.shape[1]))
        in_range("head", head, 1, len(weight))
        in_range("tails", tails, 1, len(weight))
        in_range("depth", depth, 1, len(weight))
        order = full.order()
        cuts = np.round(np.geomspace(head, len(weight), tails + 1)).astype(np.int64)
        parts = [np.sort(order[a:b]) for a, b in pairwise(cuts) if b > a]
        tokens, first = full.tokens(parts), np.sort(order[:head])
        if trained and parts:
            tokens = full.trained(parts, first, min(depth, head), tokens)
        return cls(weight, bias, first, parts, tokens, depth)

    def candidates(self, h: Floats) -> Ids:
        """The head, and the tails whose tokens are among its best."""
        return self._score(h)[0]

    def _score(self, h: Floats) -> tuple[Ids, Floats, np.float32]:
        weight, bias = self._head_rows
        words, logits = self._head, weight @ h + bias
        least = logits[largest(logits, self._depth)[-1]]
        opened = (self._tokens @ np.append(h, np.float32(1)) >= least).nonzero()[0].tolist()
        if opened:
            words = np.concatenate([words, *(self._tails[t] for t in opened)])
            logits = np.concatenate([logits, *(w @ h + b for w, b in map(self._tail_rows.__getitem__, opened))])
            order = np.argsort(words)
            words, logits = words[order], logits[order]
        return words, logits, log_sum_exp(logits)


class _SampledLayer:
    """The full layer on samples of hidden vectors: which words are best, and how good the best of a group is."""

    def __init__(self, weight: Floats, bias: Floats, samples: Floats) -> None:
        self._weight, self._bias, self._samples = weight, bias, samples

    def order(self) -> Ids:
        """All words [V], those first that are most often the best; equally frequent ones by id."""
        counts = np.zeros(len(self._weight), np.int64)
        for logits in self._logits():
            counts += np.bincount(logits.argmax(axis=1), minlength=len(counts))
        return np.argsort(-counts, kind="stable").astype(np.int32)

    def tokens(self, groups: Sequence[Ids]) -> Floats:
        """Rows and biases [T, D + 1] whose logits are nearest to the highest logit of each group."""
        width = self._weight.shape[1]
        if not groups:
            return np.empty((0, width + 1), np.float32)
        best = np.concatenate(
            [np.stack([logits[:, group].max(axis=1) for group in groups], axis=1) for logits in self._logits()]
        )
        points = np.column_stack([self._samples, np.ones(len(self._samples))]).astype(np.float64)
        moment = points.T @ points
        ridge = RIDGE * np.trace(moment) / (width + 1) * np.eye(width + 1)
        ridge[-1, -1] = 0.0  # the bias is not held small
        return np.linalg.solve(moment + ridge, points.T @ best).T.astype(np.float32)

    def trained(self, groups: Sequence[Ids], head: Ids, depth: int, start: Floats) -> Floats:
        """Rows and biases [T, D + 1], from `start`, that are above the `depth`-th best of the head where the group has
        one of the K best words, and below it elsewhere."""
        least, inside = [], []
        group_of = np.full(len(self._weight), -1)
        for t, group in enumerate(groups):
            group_of[group] = t
        for logits in self._logits():
            least.append(np.partition(logits[:, head], -depth, axis=1)[:, -depth])
            best = group_of[np.argpartition(-logits, min(K, logits.shape[1] - 1), axis=1)[:, :K]]
            inside.append((best[:, :, None] == np.arange(len(groups))).any(axis=1))
        bar, inside_any = np.concatenate(least).astype(np.float64), np.concatenate(inside)
        points = np.column_stack([self._samples, np.ones(len(self._samples))]).astype(np.float64)
        cost, sign = np.where(inside_any, MISSED, 1.0), np.where(inside_any, 1.0, -1.0)

        def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            apart = flat.reshape(start.shape) - start
            margin = sign * (points @ flat.reshape(start.shape).T - bar[:, None])
            gradient = (-cost * sign / (1 + np.exp(margin))).T @ points / len(points)
            value = (cost * np.logaddexp(0, -margin)).sum() / len(points) + RIDGE * (apart**2).sum()
            return float(value), (gradient + 2 * RIDGE * apart).ravel()

        solution = minimize(loss, start.astype(np.float64).ravel(), jac=True, method="L-BFGS-B")
        return np.asarray(solution.x.reshape(start.shape), np.float32)

    def _logits(self) -> Iterator[Floats]:
        for start in range(0, len(self._samples), ROWS):
            yield self._samples[start : start + ROWS] @ self._weight.T + self._bias
