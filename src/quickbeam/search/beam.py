"""Greedy search and beam search over many requests at once: by default with the rules of Hugging Face's `generate`.

Each step, for each request (K = beam_size):
1. The 2K best continuations of all its rows are its candidates, ranked by the sum of log probabilities. Equal sums
   stand in the order of their rows, then in the projection's order (higher log probability, then lower id).
   Of one row at most `max_children` are taken, and none below the thresholds of search/width.py.
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

import numpy as np
from numpy.typing import NDArray

from quickbeam.options.decode import SearchOptions
from quickbeam.options.schema import require
from quickbeam.search.candidates import CandidateRules
from quickbeam.search.door import Forward
from quickbeam.search.observer import Choice, Fate, Observer
from quickbeam.search.ranking import Index, rank
from quickbeam.search.stopping import Finished, Pool, StopRule
from quickbeam.search.tree import ROOT, TokenTree
from quickbeam.search.width import Width
from quickbeam.search.work import Work
from quickbeam.types import Candidates, Hypothesis, Ids, Move, Request, Rows, Scores, TopK

Mask = NDArray[np.bool_]


class BeamSearch:
    """Beam search of one decoding run; see the module's text for its rules."""

    def __init__(self, options: SearchOptions, bos_id: int, eos_id: int, vocab_size: int) -> None:
        """Raise OptionError where the beam is wider than the vocabulary [V = vocab_size]."""
        beam = options.beam_size
        require(beam <= vocab_size, "beam_size", beam, f"at most {vocab_size}, the size of the model's vocabulary")
        self._options = options
        self._bos_id, self._eos_id = bos_id, eos_id
        # Of 2K at most K are eos, so K can go on. Greedy search has no use for the second best: eos ends it.
        self._keep = 1 if beam == 1 else 2 * beam
        children = min(self._keep, options.max_children or self._keep)
        self._width = Width(options)
        self._stop = StopRule(options)
        self._finished: dict[int, Pool] = {}  # of each request in flight
        self._tree = TokenTree(self._finished.keys(), eos_id)
        self._rules = CandidateRules(options, eos_id, vocab_size, children, self._tree)
        self.candidates = self._rules.least
        self._ripe = 0  # requests in flight with so many finished hypotheses that they may be done
        self.work = Work()
        self.observer: Observer | None = None

    def begin(self, requests: Sequence[Request], state: Ids) -> Rows:
        """One row for each new request, at bos."""
        size = len(requests)
        self._rules.enter(requests)
        self._finished.update((request.index, Pool()) for request in requests)
        return Rows(
            request=np.array([request.index for request in requests], np.int32),
            state=state,
            token=np.full(size, self._bos_id, np.int32),
            node=np.full(size, ROOT, np.int32),
            length=np.zeros(size, np.int32),
            score=np.zeros(size, np.float64),
        )

    def turn(self, rows: Rows, forward: Forward) -> Move:
        """Run every row, and advance."""
        return self.advance(rows, forward.topk(forward.step(rows), self._rules.wanted(rows), rows.request))

    def advance(self, rows: Rows, top: TopK) -> Move:
        """One step for every request in `rows`, whose states are the new ones; `top` has at least `candidates` of each.

        Raises ModelError where a log probability is not a number.
        """
        beam = self._options.beam_size
        first = self._first_rows(rows)  # [B]
        self.work.steps += 1
        self.work.expansions += len(rows)
        self.work.request_steps += len(first)
        found = self._rules.apply(rows, top)
        cell, score = rank(rows.score[:, None] + found.value, first, self._keep)  # [B, C]
        token = found.token.take(cell, mode="clip")
        last = rows.length[first] + 1 >= self._options.max_length  # [B]
        ends = (token == self._eos_id) | last[:, None]
        possible = score > -math.inf
        if self._width.varies:
            possible &= score >= self._floor(rows.request[first], score[:, 0])[:, None]
        if self._options.finishing == "stay":
            possible = self._share(rows.request[first], score, possible)
        lives = possible & ~ends
        lives &= lives.cumsum(axis=1) <= beam
        ended = possible & ends
        ended[:, beam:] = False

        if self.observer is not None:
            self._report(self.observer, rows, first, found, cell, score, lives, ended)
        going = self._tree.grow(rows, found, cell[lives], score[lives])
        if ended.any():
            self._finish(self._tree.grow(rows, found, cell[ended], score[ended]))
        if not self._ripe and lives.any(axis=1).all():
            return Move(going, {})
        best = np.where(lives, score, -math.inf).max(axis=1)  # [B]
        return self._settle(rows, first, going, best)

    def _report(
        self,
        observer: Observer,
        rows: Rows,
        first: Index,
        found: Candidates,
        cell: Index,
        score: Scores,
        lives: Mask,
        ended: Mask,
    ) -> None:
        """Tell the observer what became of the candidates at `cell` [B, C]."""
        k = found.token.shape[1]
        floor = self._floor(rows.request[first], score[:, 0])
        for b, start in enumerate(first.tolist()):
            choices: list[Choice] = []
            for place, total, alive, end in zip(cell[b], score[b], lives[b], ended[b], strict=True):
                fate: Fate = "lives" if alive else "finished" if end else "width"
                if not alive and not end and total < floor[b]:
                    fate = "threshold"
                if total == -math.inf:
                    fate = "banned"
                if place // k - start < (rows.request == rows.request[start]).sum():  # else it is padding
                    token, log_prob = int(found.token.flat[place]), float(found.log_prob.flat[place])
                    choices.append(Choice(int(place // k - start), token, log_prob, float(total), fate))
            observer.advanced(int(rows.request[start]), choices)

    def _floor(self, request: Ids, best: Scores) -> Scores:
        """The threshold of each request [B], whose best candidates have the scores `best` [B]."""
        top = np.array([self._finished[index].top for index in request.tolist()])
        return self._width.floor(np.maximum(top, best))

    def _share(self, request: Ids, score: Scores, possible: Mask) -> Mask:
        """Which of the possible candidates [B, C] have a place on a beam that they share with the finished ones.

        Finished ones that have no place any more, or are below the threshold, are forgotten.
        """
        shared = np.zeros_like(possible)
        floors = self._floor(request, score[:, 0]).tolist()
        for b, (index, floor) in enumerate(zip(request.tolist(), floors, strict=True)):
            pool = self._finished[index]
            was_ripe = len(pool) >= self._stop.enough
            places = possible[b].nonzero()[0]
            held = [f for f in pool.best if f.log_prob >= floor]
            both = np.concatenate([[f.log_prob for f in held], score[b, places]])
            chosen = (-both).argsort(kind="stable")[: self._options.beam_size]
            shared[b, places[chosen[chosen >= len(held)] - len(held)]] = True
            pool.best = [held[i] for i in sorted(chosen[chosen < len(held)].tolist())]
            self._ripe -= was_ripe and len(pool) < self._stop.enough
        return shared

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

    def _settle(self, rows: Rows, first: Index, going: Rows, best: Scores) -> Move:
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
        return Move(going, done)
