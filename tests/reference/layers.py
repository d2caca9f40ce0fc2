"""Output layers in NumPy, computed in float64 and rounded once: slow, and the truth the native ones are held to."""

from __future__ import annotations

import numpy as np
from reference import kernels as reference

from sharpbeam.errors import OptionError
from sharpbeam.output_layers.fitted import Screen
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.types import Floats, Ids, TopK


class ReferenceLayer(RowLayer):
    """The same in NumPy, computed in float64 and rounded once: slow, and the truth that the others are held to."""

    def __init__(self, weight: Floats, bias: Floats) -> None:
        self._weight, self._bias = weight, bias
        self.vocab_size = len(weight)

    def topk(self, hidden: Floats, k: int) -> TopK:
        """The k best tokens of each row of `hidden` [R, D], ties by lower id; ValueError unless 1 <= k <= V."""
        if not 1 <= k <= self.vocab_size:
            raise OptionError(f"k is {k}; it must be from 1 to the vocabulary size, {self.vocab_size}")
        log_prob = self._log_softmax(hidden)
        token = reference.top_k(log_prob, k)
        return TopK(np.take_along_axis(log_prob, token, axis=1), token)

    def log_prob(self, hidden: Floats, token: Ids) -> Floats:
        """Log probability [R] of the given token [R] of each row."""
        return self._log_softmax(hidden)[range(len(token)), token]

    def _log_softmax(self, hidden: Floats) -> Floats:
        logits = reference.gemm(hidden, self._weight, self._bias)
        return (logits - reference.log_sum_exp(logits)).astype(np.float32)


class ReferenceScreenLayer(RowLayer):
    """The same in NumPy, computed in float64 and rounded once: slow, and the truth that the native one is held to."""

    def __init__(self, weight: Floats, bias: Floats, screen: Screen, exact: RowLayer | None = None) -> None:
        self._weight, self._bias, self._screen, self._exact = weight, bias, screen, exact
        self.vocab_size = len(weight)

    def topk(self, hidden: Floats, k: int) -> TopK:
        """The k best candidates of each row of `hidden` [R, D], ties by lower id; OptionError unless 1 <= k <= V."""
        if not 1 <= k <= self.vocab_size:
            raise OptionError(f"k is {k}; it must be from 1 to the vocabulary size, {self.vocab_size}")
        log_prob = np.full((len(hidden), k), -np.inf, np.float32)
        token = np.zeros((len(hidden), k), np.int32)
        for row, h in enumerate(hidden):
            words, scores, _, doubtful = self._score(h)
            if doubtful and self._exact is not None:
                top = self._exact.topk(hidden[row : row + 1], k)
                log_prob[row], token[row] = top.log_prob[0], top.token[0]
                continue
            best = reference.top_k(scores, min(k, len(words)))
            log_prob[row, : len(best)], token[row, : len(best)] = scores[best], words[best]
        return TopK(log_prob, token)

    def log_prob(self, hidden: Floats, token: Ids) -> Floats:
        """Log probability [R] of the given token [R] of each row; outside the set -inf, where there is no tail."""
        found = np.full(len(hidden), -np.inf, np.float32)
        for row, h in enumerate(hidden):
            words, scores, total, doubtful = self._score(h)
            if doubtful and self._exact is not None:
                found[row] = self._exact.log_prob(hidden[row : row + 1], token[row : row + 1])[0]
            elif token[row] in words:
                found[row] = scores[np.searchsorted(words, token[row])]
            elif self._screen.residual is not None:
                word = token[row : row + 1]
                found[row] = reference.gemm(h, self._weight[word], self._bias[word])[0] - total
        return found

    def _score(self, h: Floats) -> tuple[Ids, Floats, float, bool]:
        """Words of the cluster of h [D], their log probabilities, the normaliser, and whether the row is doubtful."""
        screen, doubt, tail = self._screen, self._screen.fallback, self._screen.residual
        cluster = int(np.argmax(reference.gemm(h, screen.weight, screen.bias)))  # z(h), L2S eq. 3
        words = screen.token[screen.start[cluster] : screen.start[cluster + 1]]
        logits = reference.gemm(h, self._weight[words], self._bias[words])
        outside = -np.inf
        if tail is not None:
            pieces = tail.weight[cluster].astype(np.float64) @ h + tail.bias[cluster]
            outside = float(np.logaddexp.reduce(pieces))
        total = float(np.logaddexp(reference.log_sum_exp(logits).item(), outside))
        doubtful = False
        if doubt is not None:
            far = np.linalg.norm(h.astype(np.float64) - doubt.center[cluster])
            kth = np.sort(logits)[-doubt.k] if len(logits) >= doubt.k else -np.inf
            bar = max(kth, logits.max() - doubt.margin)
            doubtful = bool(bar - doubt.mass_weight * outside - doubt.distance_weight * far < doubt.threshold)
            doubtful |= outside - total > doubt.max_log_share
        return words, (logits - total).astype(np.float32), total, doubtful
