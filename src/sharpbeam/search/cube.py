"""Cube pruning in beam search (CUBE section 3.4): rows that are alike share one prediction of the next words.

The rows of a request fall into groups, the paper's sub-cubes; the first row of a group is its best, for rows stand in
the order of their scores. In each step, for each request:
1. Only the first row of each group is run, and only it is given candidates: the columns of the group. Row i and column
   j make an item, with the score of the row plus the log probability of the column: exact for the first row, else a
   guess.
2. Items are taken from the best one down. The paper pops them from a heap, into which the right and the lower
   neighbour of each popped one are pushed; rows and columns are sorted, so that is the order of the scores themselves,
   and a sort gives the same items (equal ones by row, then column).
3. "approximate" (the paper's ACP): the items are the candidates of beam search (search/beam.py), with their guesses as
   scores; what they go on from is the state of the group's first row.
   "exact" (NCP): items are taken until beam_size of them do not end. Their rows are run, each from its own state, the
   items get their exact scores, and these are the candidates. So a returned score is a forced score.

`merge_by` says what is alike: "word", the paper's, rows with the same last word; "likeness", rows whose hidden vectors
have a cosine of merge_threshold or more, found after every row was run, so that the states are exact and only the
output layer has less to do; "both", one row of each word is run, and of these the alike ones share their candidates.

The paper takes beam_size items less the number of finished ones; here `finishing` says what becomes of those.
"""

from __future__ import annotations

import math

import numpy as np

from sharpbeam.options.decode import SearchOptions
from sharpbeam.search.beam import BeamSearch, Mask
from sharpbeam.search.interface import Forward
from sharpbeam.search.merging import Groups, by_likeness, by_word, each_alone
from sharpbeam.search.ranking import Index, rank
from sharpbeam.types import Candidates, Floats, Rows, StepResult, TopK


class CubeSearch(BeamSearch):
    """Beam search with cube pruning; see the module's text."""

    def __init__(self, options: SearchOptions, bos_id: int, eos_id: int, vocab_size: int) -> None:
        """As BeamSearch."""
        super().__init__(options, bos_id, eos_id, vocab_size)
        self._by_word = options.merge_by in ("word", "both")
        self._by_likeness = options.merge_by in ("likeness", "both")

    def step(self, rows: Rows, forward: Forward) -> StepResult:
        """Run one row of each group, and more where scores are to be exact; then as beam search."""
        ran = _Ran(rows, by_word(rows) if self._by_word else each_alone(len(rows)), forward)
        request = rows.request[ran.first]
        alike = each_alone(len(request))
        if self._by_likeness:
            alike = by_likeness(request, ran.hidden, self._options.merge_threshold)
        top = forward.topk(ran.hidden[alike.first], self._rules.wanted(rows), request[alike.first])
        self.work.sub_cubes += len(alike.first)
        cube = alike.group[ran.place]  # [R] which row of `top` speaks for each row
        if self.observer is not None:
            for index in dict.fromkeys(rows.request.tolist()):
                self.observer.merged(index, cube[rows.request == index].tolist())
        top = TopK(top.log_prob[cube], top.token[cube])  # [R, k]
        if self._options.cube_pruning == "exact":
            speaks = ran.first[alike.first]  # the rows whose own candidates they are
            top = self._exact(rows, top, np.isin(np.arange(len(rows)), speaks, invert=True), ran, forward)
        rows.state = ran.state
        self.work.model_rows += len(ran.hidden)
        return self.advance(rows, top)

    def _exact(self, rows: Rows, top: TopK, guessed: Mask, ran: _Ran, forward: Forward) -> TopK:
        """The items taken from `top` with their exact log probabilities; -inf for all others.

        `guessed` [R] says of which rows `top` [R, k] does not have them.
        """
        found = self._rules.apply(rows, top)
        item = self._taken(rows, found)
        log_prob = np.full_like(found.log_prob, -math.inf)
        log_prob.put(item, found.log_prob.take(item))
        item = item[guessed[item // log_prob.shape[1]]]
        if len(item):
            row = item // log_prob.shape[1]
            hidden = ran.own(row, rows, forward)
            log_prob.put(item, forward.log_prob(hidden, found.token.take(item), rows.request[row]))
        return TopK(log_prob, found.token)

    def _taken(self, rows: Rows, found: Candidates) -> Index:
        """The items [n] of all requests, from the best of each until beam_size of them do not end."""
        cell, score = rank(rows.score[:, None] + found.value, self._first_rows(rows), self._keep)  # [B, C]
        possible = score > -math.inf
        goes_on = possible & (found.token.take(cell, mode="clip") != self._eos_id)
        before = goes_on.cumsum(axis=1) - goes_on
        taken: Index = cell[possible & (before < self._options.beam_size)]
        return taken


class _Ran:
    """The rows that were run in this turn."""

    def __init__(self, rows: Rows, groups: Groups, forward: Forward) -> None:
        """Run the first row of each group; `rows` keep their states."""
        run = rows.select(groups.first)
        self.first = groups.first  # [G]
        self.hidden: Floats = forward.step(run)  # [G, D], more later
        self.place = groups.group  # [R] the hidden vector of each row, or that of its group's first
        self.state = run.state[groups.group]  # [R] likewise

    def own(self, row: Index, rows: Rows, forward: Forward) -> Floats:
        """The hidden vectors [n, D] of the rows at `row` [n]; those that only their first was run for are run now."""
        missing = np.setdiff1d(row, self.first)
        if len(missing):
            run = rows.select(missing)
            self.place = self.place.copy()
            self.place[missing] = np.arange(len(missing)) + len(self.hidden)
            self.hidden = np.concatenate([self.hidden, forward.step(run)])
            self.state[missing] = run.state
        return self.hidden[self.place[row]]
