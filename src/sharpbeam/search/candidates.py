"""What may follow a row: the output layer's candidates under the rules of the options.

The rules, in this order:
* No log probability may be NaN or +inf.
* Words that a row has already are penalised or forbidden (search/repetition.py).
* Before `min_length` tokens no hypothesis ends.
* A request's prefix is forced: while a row is shorter, its one candidate is the next token of the prefix. It adds what
  the prefix says, which is nothing in `Translator`, as in CTranslate2; like there its tokens count for min_length,
  max_length and the length penalty.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from sharpbeam.errors import ModelError
from sharpbeam.options.decode import SearchOptions
from sharpbeam.search.interface import Forward
from sharpbeam.search.prefix_bias import PrefixBias
from sharpbeam.search.repetition import Repetition
from sharpbeam.search.tree import TokenTree
from sharpbeam.types import Candidates, Floats, Prefix, Request, Rows, TopK


class CandidateRules:
    """The rules of one run."""

    def __init__(self, options: SearchOptions, eos_id: int, vocab_size: int, keep: int, tree: TokenTree) -> None:
        """`keep` candidates of each row are wanted; `tree` has the tokens of the rows."""
        self._options, self._eos_id, self._vocab_size = options, eos_id, vocab_size
        self.keep = keep
        """How many candidates of each row are kept."""
        self._repetition = Repetition(options, tree)
        self._falling = options.early_stopping == "proven"  # the proof needs sums that only fall
        self._prefixes: dict[int, Prefix] = {}  # of the requests in flight that have one
        self._bias = PrefixBias(options.prefix_bias_beta, tree, self._prefixes)
        self.least = min(keep + (options.min_length > 0), vocab_size)
        """How many candidates of each row the output layer has to find: one more where eos may be banned."""

    def wanted(self, rows: Rows) -> int:
        """How many candidates of each of these rows the output layer has to find."""
        if not self._repetition.active:
            return min(self.least + self._bias.active, self._vocab_size)
        return min(self.least + self._repetition.most(rows) + self._bias.active, self._vocab_size)

    def complete(self, rows: Rows, top: TopK, hidden: Floats, forward: Forward) -> TopK:
        """`top` [R, k] with candidates that the rules need, whose probability they ask for where they are missing."""
        return self._bias.complete(rows, top, hidden, forward) if self._bias.active else top

    @property
    def idle(self) -> bool:
        """Whether no rule has anything to say now but those of csrc/search/selection.h: min_length, and how many."""
        return not self._repetition.active and not self._prefixes

    def forget_past(self, rows: Rows) -> None:
        """Forget the prefixes that the rows of their requests are past: nothing is forced any more."""
        if not self._prefixes or self._bias.active:
            return
        for request, length in zip(rows.request.tolist(), rows.length.tolist(), strict=True):
            prefix = self._prefixes.get(request)
            if prefix is not None and length >= len(prefix.token):
                del self._prefixes[request]

    def enter(self, requests: Iterable[Request]) -> None:
        """Take note of new requests."""
        for request in requests:
            if request.prefix is not None:
                self._prefixes[request.index] = request.prefix

    def leave(self, requests: Iterable[int]) -> None:
        """Forget requests that are done."""
        for index in requests:
            self._prefixes.pop(index, None)

    def apply(self, rows: Rows, top: TopK) -> Candidates:
        """The candidates of each row; raises ModelError where a log probability cannot be one."""
        self.check(rows, top.log_prob)
        found = Candidates(top.token, top.log_prob, top.log_prob)
        if self._repetition.active:
            found.value = self._repetition.apply(rows, found.token, found.value)
            found = found.take(np.lexsort((found.token, -found.value)))
        if self._options.min_length:
            early = rows.length < self._options.min_length
            banned = (found.token == self._eos_id) & early[:, None]
            found.value = np.where(banned, np.float32(-math.inf), found.value)
        if self._bias.active:
            found = self._bias.apply(rows, found)
        if found.value.shape[1] > self.keep:  # there are more than were wanted, for what was banned
            found.value = np.where((found.value > -math.inf).cumsum(axis=1) > self.keep, -np.inf, found.value)
        if self._prefixes and not self._bias.active:
            self._force(rows, found)
        return found

    def check(self, rows: Rows, log_prob: Floats) -> None:
        """Raise ModelError where one of the log probabilities [R, k] is NaN, +inf, or above 0 where that matters."""
        if not np.maximum.reduce(log_prob, axis=None) < math.inf:  # -inf is allowed
            row = int((~(log_prob < math.inf)).any(axis=1).argmax())
            raise ModelError(
                f"request {rows.request[row]}: after {rows.length[row]} tokens the model gave a log probability "
                f"that is NaN or +inf; its weights are broken. Convert or train the model again."
            )
        if self._falling and log_prob[:, 0].max() > 0:
            raise ModelError(
                f"the model gave a log probability of {log_prob[:, 0].max()}, above 0: its output layer is not "
                f'normalised, so early_stopping "proven" proves nothing. Choose another early_stopping.'
            )

    def _force(self, rows: Rows, found: Candidates) -> None:
        """Leave only the next token of their prefix to rows that are shorter than it."""
        forced: list[tuple[int, int, float]] = []
        pairs: Sequence[tuple[int, int]] = list(zip(rows.request.tolist(), rows.length.tolist(), strict=True))
        for row, (request, length) in enumerate(pairs):
            prefix = self._prefixes.get(request)
            if prefix is not None and length < len(prefix.token):
                forced.append((row, int(prefix.token[length]), float(prefix.log_prob[length])))
        if not forced:
            return
        place, token, log_prob = (np.array(column) for column in zip(*forced, strict=True))
        found.token, found.log_prob, found.value = found.token.copy(), found.log_prob.copy(), found.value.copy()
        found.token[place, 0] = token
        found.log_prob[place, 0] = log_prob
        found.value[place] = -math.inf
        found.value[place, 0] = log_prob
