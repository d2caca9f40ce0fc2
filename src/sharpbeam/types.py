"""Data that components exchange: requests, rows, candidates, hypotheses.

Axis letters: B requests, R rows, S source length, T target length, D hidden width, V vocabulary, K beam width,
k candidates of a row, C clusters, H heads. Ids are int32, log probabilities float32, scores float64; higher is better.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Floats = NDArray[np.float32]
Scores = NDArray[np.float64]
Per = Literal["all", "target", "direction"]  # a screen for all requests, for each target language, each direction


@dataclass(frozen=True, slots=True)
class Languages:
    """Language codes of source and target; empty if unknown, or if the model has only one direction."""

    source: str = ""
    target: str = ""

    def scope(self, per: Per) -> str:
        """The key of what exists `per` direction ("de-en"), per target language ("en") or once for all ("")."""
        return {"all": "", "target": self.target, "direction": f"{self.source}-{self.target}"}[per]


@dataclass(frozen=True, slots=True)
class Prefix:
    """Tokens that every hypothesis of a request begins with."""

    token: Ids  # [P], without eos
    log_prob: Floats  # [P] added to the score of a hypothesis; NaN: what the model says

    @staticmethod
    def of(hypothesis: Hypothesis) -> Prefix:
        """The tokens of a hypothesis, with their log probabilities."""
        return Prefix(np.array(hypothesis.tokens, np.int32), np.array(hypothesis.token_log_probs, np.float32))


@dataclass(slots=True)  # frozen objects take five times as long to make
class Request:
    """A source to decode. `index` is its number; no two requests in flight have the same."""

    index: int
    source: Ids  # [S], eos included
    prefix: Prefix | None = None
    languages: Languages = Languages()
    # Tokens of a hypothesis, where that is below the option, but never less than prefix and eos take; 0 = no limit of
    # its own.
    max_length: int = 0


@dataclass(slots=True)
class Rows:
    """Live hypotheses, one entry for each; R may be zero. The arrays have one length and one order."""

    request: Ids  # [R] index of the request that the row belongs to
    state: Ids  # [R] the model's handle of the state to continue from (siblings share one)
    token: Ids  # [R] the last token, not yet consumed by the model
    node: Ids  # [R] last node of the row in the search's tree of tokens
    length: Ids  # [R] tokens produced so far, without bos
    score: Scores  # [R] sum of log probabilities so far

    def __len__(self) -> int:
        return len(self.token)

    @staticmethod
    def empty() -> Rows:
        """No rows at all."""
        ids = np.empty(0, np.int32)
        return Rows(ids, ids, ids, ids, ids, np.empty(0, np.float64))

    def select(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> Rows:
        """The rows at `index` (integers or a mask), in that order."""
        return Rows(*(getattr(self, name)[index] for name in self.__slots__))

    def extend(self, other: Rows) -> Rows:
        """These rows, then `other`."""
        if not len(self):
            return other
        return Rows(*(np.concatenate([getattr(self, n), getattr(other, n)]) for n in self.__slots__))


@dataclass(slots=True)  # not frozen, which would make a call of a screen 5% slower
class TopK:
    """The k best candidates of each row, best first; of equal log probabilities the lower id comes first."""

    log_prob: Floats  # [R, k]; -inf where a row has fewer than k candidates
    token: Ids  # [R, k]


@dataclass(frozen=True, slots=True)
class Footprint:
    """Memory of a model for requests in flight: bytes, estimated from its sizes."""

    row: int  # of one live row: its state before and after a step, and the activations of the step
    position: int  # of one source position of a request: what the decoder reads, and the activations of encoding


@dataclass(slots=True)
class Hypothesis:
    """A finished sequence of one request."""

    request: int
    tokens: tuple[int, ...]  # without bos, without eos
    token_log_probs: tuple[float, ...]  # one for each token, and a last one for eos if it was reached
    log_prob: float  # sum of token_log_probs; nan where the search had no log probabilities, as the score
    score: float  # log_prob / length ** length_penalty: what ranks hypotheses
    # [T, S] a row for each of token_log_probs, a column for each source token; sums to 1. None unless asked for.
    attention: Floats | None = field(default=None, compare=False)


@dataclass(slots=True)
class StepResult:
    """Outcome of a search step: the rows that continue, and the requests that are done."""

    rows: Rows  # [R'] surviving rows; `state` is the handle that the step gave to their parent
    finished: dict[int, list[Hypothesis]]  # requests that are done: their hypotheses, best first
