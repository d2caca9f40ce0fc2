"""The words that may stand at one place: behind its prefix each request is given its likeliest next words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sharpbeam.options.decode import LONGEST, SearchOptions
from sharpbeam.search.candidates import CandidateRules
from sharpbeam.search.interface import Forward
from sharpbeam.search.tree import TokenTree, first_rows
from sharpbeam.search.work import Work
from sharpbeam.types import Hypothesis, Ids, Request, Rows, StepResult, TopK


class Expansion:
    """One step behind the prefix; a hypothesis is the prefix and one more word, never eos, the likeliest first.

    There are `num_hypotheses` of them, or fewer: all but the first have at least the probability
    `min_alternative_expansion_prob`. Rules against repetition apply.
    """

    def __init__(self, options: SearchOptions, bos_id: int, eos_id: int, vocab_size: int) -> None:
        self._bos_id = bos_id
        self._live: set[int] = set()
        self._tree = TokenTree(self._live, eos_id)
        lowest = options.min_alternative_expansion_prob
        self._lowest = math.log(lowest) if lowest > 0 else -math.inf
        longest = min(options.max_length, LONGEST - 1)
        longer = replace(options, min_length=longest, max_length=longest + 1)  # bans eos
        keep = min(options.num_hypotheses, vocab_size)
        self._rules = CandidateRules(longer, eos_id, vocab_size, keep, self._tree)
        self._prefix: dict[int, int] = {}  # the number of its tokens
        self.work = Work()

    def begin(self, requests: Sequence[Request], state: Ids) -> Rows:
        """One row for each new request, at bos."""
        self._rules.enter(requests)
        for request in requests:
            self._live.add(request.index)
            self._prefix[request.index] = 0 if request.prefix is None else len(request.prefix.token)
        return first_rows(requests, state, self._bos_id)

    def cancel(self, request: int) -> None:
        """Forget a request in flight: `search.interface.Search.cancel`."""
        self._live.remove(request)
        del self._prefix[request]
        self._rules.leave([request])

    def step(self, rows: Rows, forward: Forward) -> StepResult:
        """Run every row; those behind their prefix are done."""
        return self.advance(rows, forward.topk(forward.step(rows), self._rules.wanted(rows), rows.request))

    def advance(self, rows: Rows, top: TopK) -> StepResult:
        """One word more of each prefix, or the words that may stand behind it."""
        self.work.steps += 1
        self.work.expansions += len(rows)
        self.work.request_steps += len(rows)
        found = self._rules.apply(rows, top)
        k = found.token.shape[1]
        ready = rows.length == np.array([self._prefix[index] for index in rows.request.tolist()])
        forced = (~ready).nonzero()[0] * k
        going = self._tree.grow(rows, found, forced, rows.score[~ready] + found.value[~ready, 0])
        allowed = (found.value > -math.inf) & ready[:, None]
        likely = found.log_prob >= self._lowest
        likely |= (allowed.cumsum(axis=1) == 1) & allowed  # the first one, however unlikely
        cell = (allowed & likely).ravel().nonzero()[0]
        words = self._tree.grow(rows, found, cell, rows.score[cell // k] + found.value.ravel()[cell])
        done: dict[int, list[Hypothesis]] = {index: [] for index in rows.request[ready].tolist()}
        columns = (words.request.tolist(), words.node.tolist(), words.score.tolist())
        for request, node, score in zip(*columns, strict=True):
            done[request].append(self._tree.hypothesis(request, node, score))
        for index in done:
            self._live.remove(index)
            del self._prefix[index]
        self._rules.leave(done)
        self.work.requests += len(done)
        return StepResult(going, done)
