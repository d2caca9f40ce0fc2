"""Sampling: `num_hypotheses` answers for each request, each drawn by itself, word by word, from what the model says.

In each step a row draws one of its candidates. As in Hugging Face and CTranslate2, log probabilities are divided by
`temperature`; then the `top_k` likeliest stay; then of these the fewest that have the probability `top_p` together,
where the one that reaches it stays too. The word is the first one, from the likeliest down, at which the sum of the
probabilities that stay exceeds a random number.

The random numbers of a sample come from a counter (Philox, Salmon et al. 2011), keyed by the seed, the source and
prefix of the request, the sample and the step. So they depend neither on the batch nor on its order, the threads or
the schedule, and the first of several samples is the one that is drawn alone. The same text twice has the same samples.

Answers stand in the order in which they were drawn: sorting them would make the first one the luckiest. Their scores
are those of the model itself: log probabilities before temperature, top_k and top_p.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np

from sharpbeam.options.decode import SamplingOptions, SearchOptions
from sharpbeam.search.candidates import CandidateRules
from sharpbeam.search.interface import Forward
from sharpbeam.search.ranking import Index
from sharpbeam.search.tree import TokenTree, first_rows
from sharpbeam.search.work import Work
from sharpbeam.types import Floats, Hypothesis, Ids, Request, Rows, Scores, StepResult, TopK


class Sample:
    """One answer that is being drawn."""

    def __init__(self, seed: int, request: Request, number: int) -> None:
        """The `number`-th one of a request."""
        prefix = request.prefix.token if request.prefix is not None else np.empty(0, np.int32)
        text = b"".join(
            len(ids).to_bytes(8, "little") + ids.astype("<i4").tobytes() for ids in (request.source, prefix)
        )
        name = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
        key, counter = np.array([seed, name], np.uint64), np.array([0, 0, 0, number], np.uint64)
        self.number = number
        self.draw = np.random.Generator(np.random.Philox(key=key, counter=counter)).random


class SamplingSearch:
    """Sampling of one decoding run; see the module's text for its rules."""

    def __init__(
        self, options: SearchOptions, sampling: SamplingOptions, bos_id: int, eos_id: int, vocab_size: int
    ) -> None:
        """Of the search options, num_hypotheses, lengths and length_penalty matter."""
        self._options, self._sampling = options, sampling
        self._bos_id, self._eos_id = bos_id, eos_id
        self._live: dict[int, list[Sample]] = {}  # of each request in flight, in the order of its rows
        self._answers: dict[int, dict[int, Hypothesis]] = {}  # what is finished of it, by the number of the sample
        self._tree = TokenTree(self._live.keys(), eos_id)
        keep = min(sampling.top_k or vocab_size, vocab_size)
        self._rules = CandidateRules(options, eos_id, vocab_size, keep, self._tree)
        self.work = Work()

    def begin(self, requests: Sequence[Request], state: Ids) -> Rows:
        """`num_hypotheses` rows for each new request, at bos."""
        self._rules.enter(requests)
        samples = self._options.num_hypotheses
        for request in requests:
            self._live[request.index] = [Sample(self._sampling.seed, request, i) for i in range(samples)]
            self._answers[request.index] = {}
        return first_rows(requests, state, self._bos_id, each=samples)

    def cancel(self, request: int) -> None:
        """Forget a request in flight: `search.interface.Search.cancel`."""
        del self._live[request], self._answers[request]
        self._rules.leave([request])
        if not self._live:
            self._tree.clear()

    def step(self, rows: Rows, forward: Forward) -> StepResult:
        """Run every row, and draw."""
        return self.advance(rows, forward.topk(forward.step(rows), self._rules.wanted(rows), rows.request))

    def advance(self, rows: Rows, top: TopK) -> StepResult:
        """One word more for every row; raises ModelError where a log probability is not a number."""
        found = self._rules.apply(rows, top)
        requests = list(dict.fromkeys(rows.request.tolist()))
        self.work.steps += 1
        self.work.expansions += len(rows)
        self.work.request_steps += len(requests)
        samples = [sample for request in requests for sample in self._live[request]]
        number = np.array([sample.draw() for sample in samples])
        place = np.arange(len(rows))
        possible = found.value.max(axis=1) > -math.inf
        cell = place * found.token.shape[1] + self._choose(found.value, number)
        cell = cell[possible]
        score = rows.score[possible] + found.log_prob.ravel()[cell]
        grown = self._tree.grow(rows, found, cell, score)
        ends = (grown.token == self._eos_id) | (grown.length >= self._options.max_length)
        goes_on = np.zeros(len(rows), np.bool_)
        goes_on[place[possible][~ends]] = True
        self._finish(grown.select(ends), [samples[row] for row in place[possible][ends]])
        if not possible.all():  # these had no candidate: they end as they are
            self._finish(rows.select(~possible), [samples[row] for row in place[~possible]])
        if goes_on.all():
            return StepResult(grown, {})
        for request in requests:
            self._live[request] = [s for s in self._live[request] if s.number not in self._answers[request]]
        return StepResult(grown.select(~ends), self._settle(requests))

    def _choose(self, value: Floats, number: Scores) -> Index:
        """Which of the candidates with log probabilities `value` [R, k] each row takes, by a number in [0, 1) [R]."""
        order = (-value).argsort(axis=1, kind="stable")  # rules may have banned some
        ranked = np.take_along_axis(value, order, axis=1).astype(np.float64)
        with np.errstate(invalid="ignore"):  # -inf - -inf in a row without any candidate, which takes none
            weight = np.nan_to_num(np.exp((ranked - ranked[:, :1]) / self._sampling.temperature))
        total = weight.cumsum(axis=1)  # one after another, so that a row's sums do not depend on its neighbours
        before = total - weight
        stays = before < self._sampling.top_p * total[:, -1:]
        stays[:, 0] = True
        last = stays.sum(axis=1) - 1
        mass = np.take_along_axis(total, last[:, None], axis=1)[:, 0]
        rank = np.minimum((total <= (number * mass)[:, None]).sum(axis=1), last)
        return np.take_along_axis(order, rank[:, None], axis=1)[:, 0]

    def _finish(self, rows: Rows, samples: Sequence[Sample]) -> None:
        """Put down the answers that `rows` are, one for each of `samples`."""
        columns = (rows.request.tolist(), rows.node.tolist(), rows.length.tolist(), rows.score.tolist())
        for sample, request, node, length, log_prob in zip(samples, *columns, strict=True):
            score = log_prob / math.pow(max(length, 1), self._options.length_penalty)
            self._answers[request][sample.number] = self._tree.hypothesis(request, node, score)

    def _settle(self, requests: Sequence[int]) -> dict[int, list[Hypothesis]]:
        """Close those of `requests` that are done; returns their answers in the order of the samples."""
        done: dict[int, list[Hypothesis]] = {}
        for request in requests:
            if not self._live[request]:
                del self._live[request]
                done[request] = [answer for _, answer in sorted(self._answers.pop(request).items())]
        self._rules.leave(done)
        self.work.requests += len(done)
        if not self._live:
            self._tree.clear()
        return done
