"""A search of your own: diverse answers (Vijayakumar et al. 2018, groups of one).

Each request has `num_hypotheses` rows. All take their best next token, one after the other, and a token loses
PENALTY for each row before that took it in the same step. Use it on any model and output layer:

    python examples/own_search.py "Guten Morgen."
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from sharpbeam import Translator, register_search
from sharpbeam.search.interface import Forward
from sharpbeam.search.registry import SearchInputs
from sharpbeam.search.work import Work
from sharpbeam.types import Hypothesis, Ids, Request, Rows, StepResult

PENALTY = 1.0  # log probability


class DiverseSearch:
    """`sharpbeam.search.interface.Search`; the node of a row is the number of its answer."""

    def __init__(self, inputs: SearchInputs) -> None:
        self._options, self._bos_id, self._eos_id = inputs.options.search, inputs.bos_id, inputs.eos_id
        self._paths: dict[int, list[list[tuple[int, float]]]] = {}  # tokens and log probabilities of each answer
        self.work = Work(reason="the search is computed in Python")

    def begin(self, requests: Sequence[Request], state: Ids) -> Rows:
        """One row at bos for each answer of new requests."""
        answers = self._options.num_hypotheses
        for request in requests:
            self._paths[request.index] = [[] for _ in range(answers)]
        index = np.array([request.index for request in requests], np.int32).repeat(answers)
        number = np.tile(np.arange(answers, dtype=np.int32), len(requests))
        bos, none = np.full(len(index), self._bos_id, np.int32), np.zeros(len(index), np.int32)
        return Rows(index, state.repeat(answers), bos, number, none, np.zeros(len(index)))

    def step(self, rows: Rows, forward: Forward) -> StepResult:
        """One token more for every answer."""
        hidden, state = forward.step(rows.request, rows.state, rows.token)
        top = forward.topk(hidden, self._options.num_hypotheses, rows.request)  # any other token is better left alone
        ids: dict[int, Counter[int]] = defaultdict(Counter)  # tokens of this step, by request
        token, lives = np.empty(len(rows), np.int32), np.empty(len(rows), bool)
        for row, request in enumerate(rows.request.tolist()):
            value = [p - PENALTY * ids[request][t] for p, t in zip(top.log_prob[row], top.token[row], strict=True)]
            best = int(np.argmax(value))
            token[row], log_prob = top.token[row, best], float(top.log_prob[row, best])
            ids[request][token[row]] += 1
            path = self._paths[request][rows.node[row]]
            path.append((int(token[row]), log_prob))
            lives[row] = token[row] != self._eos_id and len(path) < self._options.max_length
        self.work.count(1, len(rows), len(ids))
        grown = Rows(rows.request, state, token, rows.node, rows.length + 1, rows.score).select(lives)
        stopped = ids.keys() - set(grown.request.tolist())
        self.work.requests += len(stopped)
        return StepResult(grown, {request: self._answers(request) for request in stopped})

    def cancel(self, request: int) -> None:
        """Forget a request in flight."""
        del self._paths[request]

    def _answers(self, request: int) -> list[Hypothesis]:
        answers = []
        for path in self._paths.pop(request):
            tokens, log_probs = zip(*path, strict=True)
            log_prob = sum(log_probs)
            ended = tokens[-1] == self._eos_id
            score = log_prob / len(path) ** self._options.length_penalty
            answers.append(Hypothesis(request, tokens[:-1] if ended else tokens, log_probs, log_prob, score))
        return answers


register_search("diverse", DiverseSearch)

if __name__ == "__main__":
    (translation,) = Translator("de-en").translate(
        sys.argv[1:2] or ["Guten Morgen."], search="diverse", num_hypotheses=4
    )
    for hypothesis in translation.hypotheses:
        print(f"{hypothesis.score:7.3f}  {hypothesis.text}")
