"""A search whose steps run in the compiled core: csrc/search, where each kind says what it does.

Where the model or the output layer is Python's, the same search asks them through `Forward`, one step a call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from math import nan

import numpy as np

from sharpbeam import _core
from sharpbeam.options.decode import SamplingOptions, SearchOptions
from sharpbeam.search.interface import Forward
from sharpbeam.search.work import Work
from sharpbeam.types import Hypothesis, Ids, Prefix, Request, Rows, StepResult

ROOT = -1  # the node of a row without tokens
_NO_PREFIX = Prefix(np.empty(0, np.int32), np.empty(0, np.float32))
_DEFAULT = SamplingOptions()


class NativeSearch:
    """`search.interface.Search` on the compiled core. A caller's mistake raises ValueError and changes nothing."""

    kind: str
    """The search in the core: beam, sampling or expansion."""
    rows_each = 1
    """Rows that a request begins with."""
    _decodes = False  # whether all steps of a request can be one call

    def __init__(
        self, options: SearchOptions, bos_id: int, eos_id: int, vocab_size: int, sampling: SamplingOptions = _DEFAULT
    ) -> None:
        """A search of one decoding run."""
        self._options, self._bos_id = options, bos_id
        self._scored = options.needs_log_prob  # otherwise logits stand for log probabilities
        ids = {"eos_id": eos_id, "vocab_size": vocab_size}
        self._core = _core.Search(self.kind, vars(options) | vars(sampling) | ids)
        self.interrupt = self._core.interrupt
        self.work = Work()

    def begin(self, requests: Sequence[Request], state: Ids) -> Rows:
        """First rows of new requests, at bos, with the handles of their initial states [B]."""
        for request in requests:
            prefix = request.prefix or _NO_PREFIX
            begin = (request.index, prefix.token, prefix.log_prob, self._name(request))
            self._core.begin(*begin, request.max_length)
        index = np.array([request.index for request in requests], np.int32).repeat(self.rows_each)
        token, node, length = np.array([[self._bos_id], [ROOT], [0]], np.int32).repeat(len(index), axis=1)
        return Rows(index, state.repeat(self.rows_each), token, node, length, np.zeros(len(index), np.float64))

    def cancel(self, request: int) -> None:
        """Forget a request in flight; raises KeyError if it is not in flight."""
        if not self._core.cancel(request):
            raise KeyError(request)

    def peek(self, request: int, node: int) -> tuple[list[Hypothesis], list[int]]:
        """The finished hypotheses of a request in flight, best first, and the tokens up to `node`; raises KeyError."""
        partial = self._core.peek(request, node)
        if partial is None:
            raise KeyError(request)
        finished, tokens = partial
        return self._hypotheses(request, finished), tokens

    def step(self, rows: Rows, forward: Forward) -> StepResult:
        """Take one step, or several if the forward pass is native and `whole`.

        Raises ModelError if a log probability is NaN or +inf, or above 0 under a rule that relies on it.
        """
        columns = rows.request, rows.state, rows.token, rows.node, rows.length, rows.score
        if forward.native is None:
            answer = self._core.python_step(forward, *columns)
            self.work.python_steps += 1
            self.work.reason = forward.reason
        else:
            model, layer = forward.native
            answer = self._core.step(model, layer, forward.whole, *columns)
        (request, state, token, node, length), score, counts, finished = answer
        self.work.count(*counts)
        rows = Rows(request, state, token, node, length, score)
        return StepResult(rows, {} if finished is None else self._close(finished))

    def decode(self, request: Request, forward: Forward) -> list[Hypothesis] | None:
        """The hypotheses of a request that is alone, best first; None if a part of it is Python's.

        It enters and leaves the runs of model and output layer too; after an error these must not be used again.
        """
        if forward.native is None or not self._decodes:
            return None
        model, layer = forward.native
        prefix, languages = request.prefix or _NO_PREFIX, request.languages
        [(_, saved_steps, answers)], counts = self._core.decode(
            *(model, layer, request.index, self._bos_id, request.source, prefix.token, prefix.log_prob),
            *(request.max_length, languages.source, languages.target),
        )
        self.work.count(*counts, 1, saved_steps)
        return self._hypotheses(request.index, answers)

    def _name(self, request: Request) -> int:
        """A number that the random numbers of a request depend on, besides the seed."""
        return 0

    def _close(self, finished: _core.Done) -> dict[int, list[Hypothesis]]:
        """The answers of the requests that are done."""
        hypotheses: dict[int, list[Hypothesis]] = {}
        for request, saved_steps, answers in finished:
            self.work.requests += 1
            self.work.saved_steps += saved_steps
            hypotheses[request] = self._hypotheses(request, answers)
        return hypotheses

    def _hypotheses(self, request: int, answers: _core.Answers) -> list[Hypothesis]:
        if self._scored:
            return [Hypothesis(request, *answer) for answer in answers]
        return [Hypothesis(request, tokens, (), nan, nan) for tokens, *_ in answers]


class SamplingSearch(NativeSearch):
    """Answers drawn token by token from the model's distribution: csrc/search/sampling.h.

    Of the search options, num_hypotheses, lengths, length_penalty and the rules against repetition matter.
    """

    kind = "sampling"

    def __init__(
        self, options: SearchOptions, sampling: SamplingOptions, bos_id: int, eos_id: int, vocab_size: int
    ) -> None:
        """A search of one decoding run."""
        super().__init__(options, bos_id, eos_id, vocab_size, sampling)
        self.rows_each = options.num_hypotheses

    def _name(self, request: Request) -> int:
        """A hash of source and prefix: the same text has the same samples, whatever else is in the batch."""
        texts = request.source, (request.prefix or _NO_PREFIX).token
        text = b"".join(len(ids).to_bytes(8, "little") + ids.astype("<i4").tobytes() for ids in texts)
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


class Expansion(NativeSearch):
    """One step after the prefix of each request: a hypothesis is the prefix and one more token, the likeliest first.

    For `return_alternatives`: csrc/search/expansion.h.
    """

    kind = "expansion"
