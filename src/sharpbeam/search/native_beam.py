"""Beam search whose turns are native (csrc/search/step.h) where model and output layer are too: one call takes as many
as the schedule leaves to it. Elsewhere its bookkeeping is one native call a step (csrc/search/beam.h), in place of some
forty of NumPy's.

It says what search/beam.py says, to the last bit; tests/unit/search/test_native_beam.py holds it to that. What may
follow a row is asked of search/candidates.py, where there is any rule.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharpbeam import _core
from sharpbeam.options.decode import SearchOptions
from sharpbeam.search.beam import BeamSearch
from sharpbeam.search.interface import Forward
from sharpbeam.search.selection import facts
from sharpbeam.search.tree import first_rows
from sharpbeam.types import Hypothesis, Ids, Request, Rows, StepResult, TopK


class NativeBeamSearch(BeamSearch):
    """Beam search of one decoding run that cannot be watched, and has no rule that looks at the tokens of rows."""

    def __init__(self, options: SearchOptions, bos_id: int, eos_id: int, vocab_size: int) -> None:
        """Raise OptionError where the beam is wider than the vocabulary [V = vocab_size]."""
        super().__init__(options, bos_id, eos_id, vocab_size)
        rules = facts(options, eos_id, self._keep) | {"min_length": options.min_length, "children": self._rules.keep}
        self._core = _core.Beam(**rules, **self._stop.facts())

    @staticmethod
    def serves(options: SearchOptions) -> bool:
        """Whether these options can be served: some rules need the tokens of all rows in Python."""
        looks_back = options.repetition_penalty > 1 or options.no_repeat_ngram_size or options.prefix_bias_beta
        return not looks_back and options.cube_pruning == "none"

    def begin(self, requests: Sequence[Request], state: Ids) -> Rows:
        """One row for each new request, at bos."""
        self._rules.enter(requests)
        rows = first_rows(requests, state, self._bos_id)
        self._core.begin(rows.request)
        return rows

    def cancel(self, request: int) -> None:
        """Forget a request in flight: `search.interface.Search.cancel`."""
        if not self._core.cancel(request):
            raise KeyError(request)
        self._rules.leave([request])

    def step(self, rows: Rows, forward: Forward) -> StepResult:
        """As BeamSearch's."""
        self._rules.forget_past(rows)
        if forward.core is None or not self._rules.idle:
            return super().step(rows, forward)
        model, layer = forward.core
        columns = (rows.request, rows.state, rows.token, rows.node, rows.length)
        answer = self._core.step(model, layer, self.candidates, forward.whole, *columns, rows.score)
        if answer is None:
            return super().step(rows, forward)  # raises, as it can say which log probability is no number
        return self._move(answer)

    def advance(self, rows: Rows, top: TopK) -> StepResult:
        """As BeamSearch's."""
        found = top if self._rules.idle else self._rules.apply(rows, top)
        value = found.log_prob if isinstance(found, TopK) else found.value
        answer = self._core.advance(
            *(rows.request, rows.state, rows.node, rows.length, rows.score),
            *(found.token, found.log_prob, value),
        )
        if answer is None:
            self._rules.check(rows, top.log_prob)  # raises
            raise AssertionError("the compiled core refused what is sound")
        return self._move(answer)

    def _move(self, answer: _core.Moved) -> StepResult:
        """What a step came to, or several."""
        ids, score, (steps, expansions, requests), done = answer
        work = self.work
        work.steps += steps
        work.expansions += expansions
        work.request_steps += requests
        request, state, token, node, length = ids
        going = Rows(request, state, token, node, length, score)
        return StepResult(going, {} if done is None else self._close(done))

    def _close(self, done: _core.Done) -> dict[int, list[Hypothesis]]:
        """The answers of the requests that are done."""
        answers: dict[int, list[Hypothesis]] = {}
        for request, saved, found in done:
            answers[request] = [
                Hypothesis(request, tuple(self._bare(tokens)), tuple(log_probs), log_prob, score)
                for tokens, log_probs, log_prob, score in found
            ]
            self.work.requests += 1
            self.work.saved_steps += saved
        self._rules.leave(answers)
        return answers

    def _bare(self, tokens: list[int]) -> list[int]:
        """Without eos."""
        return tokens[:-1] if tokens and tokens[-1] == self._eos_id else tokens
