"""What may follow a row: the projection's candidates under the rules of the options.

The rules, in this order:
* No log probability may be NaN or +inf.
* Before `min_length` tokens no hypothesis ends.
* A request's prefix is forced: while a row is shorter, its one candidate is the next token of the prefix. It adds what
  the prefix says, which is nothing in `Translator`, as in CTranslate2; like there its tokens count for min_length,
  max_length and the length penalty.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from quickbeam.errors import ModelError
from quickbeam.options.decode import SearchOptions
from quickbeam.types import Floats, Ids, Prefix, Request, Rows, TopK


@dataclass(slots=True)
class Candidates:
    """k candidates of each row, best first."""

    token: Ids  # [R, k]
    log_prob: Floats  # [R, k] what the model says
    value: Floats  # [R, k] what is added to the score of the row; -inf for what is not allowed


class CandidateRules:
    """The rules of one run."""

    def __init__(self, options: SearchOptions, eos_id: int, vocab_size: int, keep: int) -> None:
        """`keep` candidates of each row are wanted."""
        self._options, self._eos_id, self._keep = options, eos_id, keep
        self._falling = options.early_stopping == "proven"  # the proof needs sums that only fall
        self._prefixes: dict[int, Prefix] = {}  # of the requests in flight that have one
        self.wanted = min(keep + (options.min_length > 0), vocab_size)
        """How many candidates of each row the projection has to find: one more where eos may be banned."""

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
        self._check(rows, top.log_prob)
        found = Candidates(top.token, top.log_prob, top.log_prob)
        if self._options.min_length:
            early = rows.length < self._options.min_length
            found.value = np.where((top.token == self._eos_id) & early[:, None], np.float32(-math.inf), top.log_prob)
            # Without a banned eos there is a candidate too many.
            found.value[(found.value > -math.inf).cumsum(axis=1) > self._keep] = -math.inf
        if self._prefixes:
            self._force(rows, found)
        return found

    def _check(self, rows: Rows, log_prob: Floats) -> None:
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
