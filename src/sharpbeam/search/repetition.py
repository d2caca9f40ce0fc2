"""Against repetition: a penalty for words that a hypothesis has already, and n-grams that it may not have twice.

* `repetition_penalty` p multiplies the log probability of every word that is in the row, once, however often it is
  there (Keskar et al. 2019). As in Hugging Face's beam search this is a log probability, and nothing is normalised
  again. CTranslate2, and Hugging Face without a beam, take the logit before the softmax instead, which they multiply by
  p where it is negative and divide by p where it is positive: two logits that differ by a constant say the same and are
  penalised otherwise, so we do not follow them, but where logits stand for log probabilities (`normalise=False`).
* `no_repeat_ngram_size` n forbids a word that would complete an n-gram which is in the row (Paulus et al. 2018).

Both look at what was generated and at the target prefix, as in CTranslate2; not at the source or the prompt. The end of
a sentence is never in a row, so neither changes it.

Both are exact, though the output layer gives the best words only: neither makes a word likelier, so whatever ends up
among the k best of a row was among its best k + m, where m is the number of words of the row that get worse.
"""

from __future__ import annotations

import math

import numpy as np

from sharpbeam.options.decode import SearchOptions
from sharpbeam.search.tree import NOTHING, TokenTree
from sharpbeam.types import Floats, Ids, Rows


class Repetition:
    """The rules that the options ask for."""

    def __init__(self, options: SearchOptions, tree: TokenTree) -> None:
        self._penalty = np.float32(options.repetition_penalty)
        self._ngram, self._tree = options.no_repeat_ngram_size, tree
        self.active = options.repetition_penalty > 1 or options.no_repeat_ngram_size > 0
        nothing = np.empty(0, np.int32)
        self._walked: tuple[Ids, Ids] = nothing, nothing  # the last nodes, and what they are the ends of

    def most(self, rows: Rows) -> int:
        """For how many words of a row, at most, a candidate may get worse."""
        history = self._history(rows)
        worse = np.sort(history if self._penalty > 1 else self._completing(history), axis=1)
        new = np.ones(worse.shape, np.bool_)
        new[:, 1:] = worse[:, 1:] != worse[:, :-1]
        return int((new & (worse != NOTHING)).sum(axis=1).max(initial=0))

    def apply(self, rows: Rows, token: Ids, value: Floats) -> Floats:
        """The values [R, k] of the candidates `token` [R, k] under these rules."""
        history = self._history(rows)
        if self._penalty > 1:
            worse = np.where(value > 0, value / self._penalty, value * self._penalty)  # above 0: not normalised
            value = np.where(_among(token, history), worse, value)
        if self._ngram:
            value = np.where(_among(token, self._completing(history)), np.float32(-math.inf), value)
        return value

    def _history(self, rows: Rows) -> Ids:
        """The tokens of the rows, [R, T]; both questions of a step are about the same ones, so they are walked once."""
        if self._walked[0] is not rows.node:
            self._walked = rows.node, self._tree.history(rows.node)
        return self._walked[1]

    def _completing(self, history: Ids) -> Ids:
        """The words that would complete an n-gram of their row for a second time, [R, n]; NOTHING elsewhere."""
        n, length = self._ngram, history.shape[1]
        if length < n:
            return history[:, :0]
        # An earlier place j, counted from the end, whose n - 1 words are the last n - 1 of the row; then the word after
        # them, which stands nearer to the end, must not follow now.
        places = length - n + 1
        same = history[:, n - 1 :] != NOTHING
        for i in range(n - 1):
            same &= history[:, i + 1 : i + 1 + places] == history[:, i : i + 1]
        return np.where(same, history[:, :places], np.int32(NOTHING))


def _among(token: Ids, words: Ids) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Which of `token` [R, k] are among the `words` [R, n] of their row."""
    row = np.arange(len(token), dtype=np.int64)[:, None] << 32
    found: np.ndarray[tuple[int, int], np.dtype[np.bool_]] = np.isin(row + token, row + words)
    return found
