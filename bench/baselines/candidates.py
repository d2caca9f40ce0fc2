"""The common base of the baselines: some words are chosen for a hidden vector, and these get their exact logits.

Everything is NumPy in float32, one row at a time, as in the paper that compares them (L2S section 4.1). What it has in
C++ is machine code where NumPy would be far slower.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from bench.baselines.peers import compiled
from sharpbeam.errors import OptionError
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.types import Floats, Ids, TopK


class CandidateLayer(RowLayer, ABC):
    """Exact logits of the words that `candidates` chooses; each row's answer depends on that row only.

    Log probabilities are normalized over these words, and a word that is not among them has probability zero. Where a
    row has fewer than k candidates, the others are token 0 with -inf.
    """

    def __init__(self, weight: Floats, bias: Floats) -> None:
        """Output matrix [V, D] and bias [V], float32."""
        self._weight, self._bias = weight, bias
        self.vocab_size = len(weight)

    @abstractmethod
    def candidates(self, h: Floats) -> Ids:
        """The words that get exact logits for the hidden vector h [D]: ascending ids, each once."""

    def topk(self, hidden: Floats, k: int) -> TopK:
        """The k best candidates of each row of `hidden` [R, D], ties by lower id; OptionError unless 1 <= k <= V."""
        in_range("k", k, 1, self.vocab_size)
        self._check(hidden)
        log_prob = np.full((len(hidden), k), -np.inf, np.float32)
        token = np.zeros((len(hidden), k), np.int32)
        for row, h in enumerate(hidden):
            words, logits, total = self._score(h)
            best = largest(logits, k)
            log_prob[row, : len(best)], token[row, : len(best)] = logits[best] - total, words[best]
        return TopK(log_prob, token)

    def log_prob(self, hidden: Floats, token: Ids) -> Floats:
        """Log probability [R] of the given token [R] of each row: the same bits as from `topk`."""
        self._check(hidden)
        result = np.empty(len(hidden), np.float32)
        for row, (h, target) in enumerate(zip(hidden, token.tolist(), strict=True)):
            in_range("token", target, 0, self.vocab_size - 1)
            words, logits, total = self._score(h)
            place = int(np.searchsorted(words, target))
            seen = place < len(words) and words[place] == target
            result[row] = logits[place] - total if seen else self._unseen(h, target, total)
        return result

    def _score(self, h: Floats) -> tuple[Ids, Floats, np.float32]:
        """Candidates of h [D], ascending, their logits, and the log of the sum that probabilities are divided by."""
        words = self.candidates(h)
        logits = self._logits(words, h)
        return words, logits, log_sum_exp(logits)

    def _logits(self, words: Ids, h: Floats) -> Floats:
        return exact_logits(self._weight, self._bias, words, h)

    def _unseen(self, h: Floats, token: int, total: np.float32) -> np.float32:
        """Log probability of a word that is no candidate of h [D]."""
        return np.float32(-np.inf)

    def _check(self, hidden: Floats) -> None:
        width = self._weight.shape[1]
        if hidden.ndim != 2 or hidden.shape[1] != width:
            raise OptionError(f"hidden has the shape {list(hidden.shape)}; it must be [any, {width}]")


class CompiledLayer(CandidateLayer, ABC):
    """One whose authors have it in C++ (L2S section 4.1): no row of the matrix is copied."""

    def _logits(self, words: Ids, h: Floats) -> Floats:
        logits: Floats = compiled(_products)(self._weight, self._bias, words, h)
        return logits


def _products(weight: Floats, bias: Floats, words: Ids, h: Floats) -> Floats:
    logits = bias[words]
    for i in range(len(words)):
        total = np.float32(0)
        for j in range(len(h)):
            total += weight[words[i], j] * h[j]
        logits[i] += total
    return logits


def exact_logits(weight: Floats, bias: Floats, words: Ids, h: Floats) -> Floats:
    """Logits [n] of the words [n] for the hidden vector h [D]; the matrix is not copied where all are asked for."""
    if len(words) == len(weight):
        return weight @ h + bias
    return weight[words] @ h + bias[words]


def log_sum_exp(logits: Floats) -> np.float32:
    """log(sum(exp(logits))) over logits [n]; -inf where there are none."""
    if not len(logits):
        return np.float32(-np.inf)
    top = logits.max()
    return np.float32(top + np.log(np.exp(logits - top).sum()))


def largest(scores: Floats, k: int) -> Ids:
    """Places of the k largest of scores [n], or of all where n < k; largest first, ties by lower place."""
    if k >= len(scores):
        return np.asarray((-scores).argsort(kind="stable"), np.int32)
    ordered = scores.copy()  # methods of arrays: NumPy's functions take as long as a small product
    ordered.partition(len(scores) - k)
    (places,) = (scores >= ordered[-k]).nonzero()
    return np.asarray(places[(-scores[places]).argsort(kind="stable")[:k]], np.int32)


def check_layer(weight: Floats, bias: Floats) -> None:
    """Raises OptionError unless these are an output matrix [V, D], V >= 1, and a bias [V]."""
    if weight.ndim != 2 or not len(weight):
        raise OptionError(f"weight has the shape {list(weight.shape)}; it must be [at least 1, width]")
    if bias.shape != (len(weight),):
        raise OptionError(f"bias has the shape {list(bias.shape)}; it must be [{len(weight)}]")


def in_range(name: str, value: int, least: int, most: int) -> None:
    """Raises OptionError unless least <= value <= most."""
    if not least <= value <= most:
        raise OptionError(f"{name} is {value}; it must be from {least} to {most}")


def need_samples(method: str, samples: Floats | None, width: int) -> Floats:
    """The hidden vectors [N, D] that a method is fitted on; raises OptionError without any, or for another width."""
    if samples is None:
        raise OptionError(f"samples is None; {method} is fitted on hidden vectors, give it some: [at least 1, {width}]")
    if samples.ndim != 2 or samples.shape[1] != width or not len(samples):
        raise OptionError(f"samples has the shape {list(samples.shape)}; it must be [at least 1, {width}]")
    return samples
