"""Greedy search and beam search over many requests at once: by default with the rules of Hugging Face's `generate`.

Each step, for each request (K = beam_size):
1. The 2K best continuations of all its rows are its candidates, ranked by the sum of log probabilities. Equal sums
   stand in the order of their rows, then in the output layer's order (higher log probability, then lower id).
   Of one row at most `max_children` are taken, and none below the thresholds of search/selection.py.
2. A candidate that ends (with eos, or because it reaches max_length) is finished if it ranks among the first K, and
   dropped otherwise. It scores log_prob / length ** length_penalty, where length counts eos. The K best finished
   ones are kept; the older one wins a tie.
3. The K best candidates that do not end are the rows of the next step.
4. `early_stopping` says when the request is done (search/stopping.py). Without live rows (as at max_length) it is done
   in any case.
With K = 1 this is greedy search: the first eos ends it, whatever `early_stopping` says, as in Hugging Face.

With finishing = "stay" (STREAM appendix A.1) step 2 and 3 are: finished hypotheses and candidates together are ranked
by the sum of log probabilities, finished ones first on ties, and the K best stay on the beam. So the beam gets narrower
with each one that finishes, and a finished one is lost when K better ones are found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sharpbeam.options.decode import SearchOptions
from sharpbeam.options.schema import require
from sharpbeam.search.candidates import CandidateRules
from sharpbeam.search.interface import Forward
from sharpbeam.search.observer import Choice, Fate, Observer
from sharpbeam.search.ranking import Index, rank
from sharpbeam.search.selection import Grown, Selected, Selector
from sharpbeam.search.stopping import Finished, Pool, StopRule
from sharpbeam.search.tree import TokenTree, first_rows
from sharpbeam.search.work import Work
from sharpbeam.types import Candidates, Hypothesis, Ids, Request, Rows, Scores, StepResult, TopK

Mask = NDArray[np.bool_]


def check_width(options: SearchOptions, vocab_size: int) -> None:
    """Raise OptionError where the beam is wider than the vocabulary."""
    allowed = f"at most {vocab_size}, the size of the model's vocabulary"
    require(options.beam_size <= vocab_size, "beam_size", options.beam_size, allowed)


class BeamSearch:
    """Beam search of one decoding run; see the module's text for its rules."""

    def __init__(self, options: SearchOptions, bos_id: int, eos_id: int, vocab_size: int) -> None:
        """Raise OptionError where the beam is wider than the vocabulary [V = vocab_size]."""
        check_width(options, vocab_size)
        beam = options.beam_size
        self._options = options
        self._bos_id, self._eos_id = bos_id, eos_id
        # Of 2K at most K are eos, so K can go on. Greedy search has no use for the second best: eos ends it.
        self._keep = 1 if beam == 1 else 2 * beam
        children = min(self._keep, options.max_children or self._keep)
        self._stop = StopRule(options)
        self._finished: dict[int, Pool] = {}  # of each request in flight
        self._tree = TokenTree(self._finished.keys(), eos_id)
        self._rules = CandidateRules(options, eos_id, vocab_size, children, self._tree)
        self.candidates = self._rules.least
        self._ripe = 0  # requests in flight with so many finished hypotheses that they may be done
        self.work = Work()
        self.observer: Observer | None = None

    @cached_property
    def _selector(self) -> Selector:
        return Selector(self._options, self._eos_id, self._keep)

    def begin(self, requests: Sequence[Request], state: Ids) -> Rows:
        """One row for each new request, at bos."""
        self._rules.enter(requests)
        self._finished.update((request.index, Pool()) for request in requests)
        return first_rows(requests, state, self._bos_id)

    def cancel(self, request: int) -> None:
        """Forget a request in flight: `search.interface.Search.cancel`."""
        self._ripe -= len(self._finished.pop(request)) >= self._stop.enough
        self._rules.leave([request])
        if not self._finished:
            self._tree.clear()

    def step(self, rows: Rows, forward: Forward) -> StepResult:
        """Run every row, and advance."""
        hidden = forward.step(rows)
        top = forward.topk(hidden, self._rules.wanted(rows), rows.request)
        return self.advance(rows, self._rules.complete(rows, top, hidden, forward))

    def advance(self, rows: Rows, top: TopK) -> StepResult:
        """One step for every request in `rows`, whose states are the new ones; `top` has at least `candidates` of each.

        Raises ModelError where a log probability is not a number.
        """
        found = self._rules.apply(rows, top)
        pools = self._pools(rows) if self._selector.looks_back else []
        chosen = self._selector.select(rows, found, pools)
        self.work.steps += 1
        self.work.expansions += len(rows)
        self.work.request_steps += len(chosen.first)
        if self.observer is not None:
            self._report(self.observer, rows, found, chosen)
        if not chosen.kept.all():
            self._drop(pools, chosen.kept)
        going = self._grow(chosen.going)
        if len(chosen.ended.rows):
            self._finish(self._grow(chosen.ended))
        if not self._ripe and chosen.best.min() > -math.inf:
            return StepResult(going, {})
        return self._settle(rows, chosen.first, going, chosen.best)

    def _report(self, observer: Observer, rows: Rows, found: Candidates, chosen: Selected) -> None:
        """Tell the observer what became of the best candidates of each request."""
        k = found.token.shape[1]
        cell, score = rank(rows.score[:, None] + found.value, chosen.first, self._keep)  # [B, C]
        lives, ended = np.isin(cell, chosen.going.cell), np.isin(cell, chosen.ended.cell)
        for b, start in enumerate(chosen.first.tolist()):
            request = int(rows.request[start])
            floor = self._selector.floor(max(self._finished[request].top, float(score[b, 0])))
            choices: list[Choice] = []
            for place, total, alive, end in zip(cell[b], score[b], lives[b], ended[b], strict=True):
                outcome: Fate = "lives" if alive else "finished" if end else "width"
                if not alive and not end and total < floor:
                    outcome = "threshold"
                if total == -math.inf:
                    outcome = "banned"
                if place // k - start < (rows.request == request).sum():  # else it is padding
                    token, log_prob = int(found.token.flat[place]), float(found.log_prob.flat[place])
                    choices.append(Choice(int(place // k - start), token, log_prob, float(total), outcome))
            observer.advanced(request, choices)

    def _pools(self, rows: Rows) -> list[Pool]:
        """What is finished of each request in `rows`."""
        return [self._finished[index] for index in rows.request[self._first_rows(rows)].tolist()]

    def _drop(self, pools: list[Pool], kept: Mask) -> None:
        """Forget the finished ones that have no place on the beam any more; `kept` [H] are those of all pools."""
        end = 0
        for pool in pools:
            begin, end = end, end + len(pool)
            was_ripe = len(pool) >= self._stop.enough
            pool.best = [finished for finished, keep in zip(pool.best, kept[begin:end].tolist(), strict=True) if keep]
            self._ripe -= was_ripe and len(pool) < self._stop.enough

    def _grow(self, grown: Grown) -> Rows:
        """New rows, with nodes of their own."""
        rows = grown.rows
        rows.node = self._tree.add(rows.node, rows.token, grown.log_prob, rows.request)
        return rows

    def _first_rows(self, rows: Rows) -> Index:
        """The place of the first row of each request, [B]."""
        if len(self._finished) == 1:
            return np.zeros(1, np.intp)
        starts = np.empty(len(rows), np.bool_)
        starts[0] = True
        np.not_equal(rows.request[1:], rows.request[:-1], out=starts[1:])
        return starts.nonzero()[0]

    def _finish(self, rows: Rows) -> None:
        """Put `rows` among the finished hypotheses of their requests, of which the best stay."""
        stop = self._stop
        columns = (rows.request, rows.length, rows.score, rows.node)
        for request, length, log_prob, node in zip(*(column.tolist() for column in columns), strict=True):
            pool = self._finished[request]
            was_ripe = len(pool) >= stop.enough
            pool.add(Finished(stop.score(log_prob, length), log_prob, node), stop.room)
            self._ripe += not was_ripe and len(pool) >= stop.enough

    def _settle(self, rows: Rows, first: Index, going: Rows, best: Scores) -> StepResult:
        """Close the requests that are done; `best` [B] is the score of each one's best live row, -inf without any."""
        done: dict[int, list[Hypothesis]] = {}
        lengths = (rows.length[first] + 1).tolist()
        for request, score, length in zip(rows.request[first].tolist(), best.tolist(), lengths, strict=True):
            why = self._stop.verdict(self._finished[request], score, length)
            if why is None:
                continue
            if self.observer is not None:
                self.observer.stopped(request, why)
            if not self._finished[request]:  # no row had any candidate: end them as they are
                self._finish(rows.select(rows.request == request))
            pool = self._finished.pop(request)
            self._ripe -= len(pool) >= self._stop.enough
            done[request] = [
                self._tree.hypothesis(request, f.node, f.score) for f in pool.best[: self._options.num_hypotheses]
            ]
            self.work.requests += 1
            if score > -math.inf:
                self.work.saved_steps += self._options.max_length - length
        if done:
            self._rules.leave(done)
            going = going.select(~np.isin(going.request, list(done)))
        if not self._finished:
            self._tree.clear()
        return StepResult(going, done)
