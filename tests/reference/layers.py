"""Output layers in NumPy, computed in float64 and rounded once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from reference import kernels as reference

from sharpbeam.errors import OptionError
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.output_layers.screen import Screen
from sharpbeam.types import Floats, Ids, TopK


class ReferenceLayer(RowLayer):
    """The exact layer: slow, and the truth that the native ones are held to."""

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
    """The screened layer in the same way."""

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
            result = self._score(h)
            if result.uncertain and self._exact is not None:
                top = self._exact.topk(hidden[row : row + 1], k)
                log_prob[row], token[row] = top.log_prob[0], top.token[0]
                continue
            best = reference.top_k(result.log_prob, min(k, len(result.tokens)))
            log_prob[row, : len(best)], token[row, : len(best)] = result.log_prob[best], result.tokens[best]
        return TopK(log_prob, token)

    def log_prob(self, hidden: Floats, token: Ids) -> Floats:
        """Log probability [R] of the given token [R] of each row.

        The tokens outside the set share the residual mass as the exact layer's probabilities do.
        """
        log_prob = np.full(len(hidden), -np.inf, np.float32)
        for row, h in enumerate(hidden):
            result = self._score(h)
            if result.uncertain and self._exact is not None:
                log_prob[row] = self._exact.log_prob(hidden[row : row + 1], token[row : row + 1])[0]
            elif token[row] in result.tokens:
                log_prob[row] = result.log_prob[np.searchsorted(result.tokens, token[row])]
            else:
                outside = np.delete(reference.gemm(h, self._weight, self._bias), result.tokens)
                logit = reference.gemm(h, self._weight[token[row]], self._bias[token[row]])
                share = logit - reference.log_sum_exp(outside)
                log_prob[row] = (share + result.log_mass - result.log_total).item()
        return log_prob

    def _score(self, h: Floats) -> _Scored:
        screen, test, residual = self._screen, self._screen.fallback, self._screen.residual
        cluster = int(np.argmax(reference.gemm(h, screen.weight, screen.bias)))  # z(h), L2S eq. 3
        tokens = screen.token[screen.start[cluster] : screen.start[cluster + 1]]
        logits = reference.gemm(h, self._weight[tokens], self._bias[tokens])
        log_mass = -np.inf
        if residual is not None:
            components = residual.weight[cluster].astype(np.float64) @ h + residual.bias[cluster]
            log_mass = float(np.logaddexp.reduce(components))
        log_total = float(np.logaddexp(reference.log_sum_exp(logits).item(), log_mass))
        uncertain = False
        if test is not None:
            distance = np.linalg.norm(h.astype(np.float64) - test.center[cluster])
            kth = np.sort(logits)[-test.k] if len(logits) >= test.k else -np.inf
            bar = max(kth, logits.max() - test.margin)
            uncertain = bool(bar - test.mass_weight * log_mass - test.distance_weight * distance < test.threshold)
            uncertain |= log_mass - log_total > test.max_log_share
        return _Scored(tokens, (logits - log_total).astype(np.float32), log_mass, log_total, uncertain)


class _Scored(NamedTuple):
    """A row: the tokens of its cluster's set, and what the screen makes of them."""

    tokens: Ids
    log_prob: Floats
    log_mass: float
    log_total: float
    uncertain: bool
