"""When a request is done. The rules look at its finished hypotheses and at its best live row only.

In all rules a request without live rows is done. Else, N = beam_size * patience, n = num_hypotheses:

* "true": N are finished. With patience = 1 the rule of Hugging Face, with another one that of Kasai et al. (2022).
* "false", "never": N are finished, and the best live row would not beat the worst of them if it ended with its present
  length ("false": a guess, for a longer end may score better), or with max_length where the penalty is positive
  ("never": sure, but it waits for answers that nobody asked for). The rules of Hugging Face.
* "exhaustive": never before max_length. Of all hypotheses that ever finish, the n best are the answer.
* "proven": n are finished, and no live row can ever beat the worst of these n. Log probabilities only fall, so a row
  with the sum s scores at most s / w, where w is the largest length ** length_penalty of all lengths at which it may
  still end (after min_length, up to max_length). The older one wins a tie, so s / w may equal the worst. The rows of a
  search do not depend on when it stops, hence the answer is the one of "exhaustive", token for token. Where finished
  hypotheses stay on the beam, no live row may be more likely than one of the n either, or it could push it off.

`stop_margin` ends a request under any rule once n are finished and the best live row's sum of log probabilities is
more than the margin below the highest of all finished ones (3.0 in "Sharp Models on Dull Hardware").
"""

from __future__ import annotations

import math
from bisect import insort
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from sharpbeam.options.decode import SearchOptions
from sharpbeam.types import Scores


@dataclass(frozen=True, slots=True)
class Finished:
    """A hypothesis that has ended."""

    score: float
    log_prob: float
    node: int  # its last one in the search's tree of tokens


class Pool:
    """What is finished of one request."""

    def __init__(self) -> None:
        self.best: list[Finished] = []  # best first
        self.top = -math.inf  # the highest log probability of all that ever finished

    def __len__(self) -> int:
        return len(self.best)

    def add(self, finished: Finished, room: int) -> None:
        """Keep `finished` if it is among the `room` best; the older one wins a tie."""
        self.top = max(self.top, finished.log_prob)
        insort(self.best, finished, key=_descending)  # behind those with the same score
        del self.best[room:]


class _Lengths:
    """What lengths weigh, as lists for Python and as arrays for the core."""

    def __init__(self, penalty: float, min_length: int, max_length: int) -> None:
        self.weight = [math.pow(max(length, 1), penalty) for length in range(max_length + 1)]
        self.weights = np.array(self.weight)
        ends = self.weights.copy()
        ends[: min_length + 1] = 0.0
        # By length now: the largest weight of the lengths at which a row may still end.
        self.widests: Scores = np.maximum.accumulate(ends[::-1])[::-1][1:].copy()
        self.widest: list[float] = self.widests.tolist()


@lru_cache(maxsize=64)  # every decoding run asks for the same ones
def _lengths(penalty: float, min_length: int, max_length: int) -> _Lengths:
    return _Lengths(penalty, min_length, max_length)


class StopRule:
    """The rule that the options ask for."""

    def __init__(self, options: SearchOptions) -> None:
        self._name, self._margin = options.early_stopping, options.stop_margin
        self._answers, self._max_length = options.num_hypotheses, options.max_length
        heuristic = self._name in ("true", "false", "never")
        self._stays = options.finishing == "stay"
        self._need = round(options.beam_size * options.patience) if heuristic else options.beam_size
        self.room = options.beam_size if self._stays else self._need
        """How many finished hypotheses of a request are kept, the best ones."""
        early = self._name == "proven" or self._margin is not None
        self.enough = self._answers if early else self._need if heuristic else self.room + 1
        """A request with fewer finished hypotheses is not done while it has live rows."""
        self._lengths = _lengths(options.length_penalty, options.min_length, options.max_length)
        self._weight, self._widest = self._lengths.weight, self._lengths.widest
        self._flatters = options.max_length if self._name == "never" and options.length_penalty > 0 else 0

    def facts(self) -> dict[str, Any]:
        """The rule as the compiled core takes it (csrc/search/stopping.h)."""
        return {
            "rule": self._name,
            "answers": self._answers,
            "need": self._need,
            "room": self.room,
            "enough": self.enough,
            "stop_margin": math.inf if self._margin is None else self._margin,
            "flatters": self._flatters,
            "weight": self._lengths.weights,
            "widest": self._lengths.widests,
        }

    def score(self, log_prob: float, length: int) -> float:
        """What ranks finished hypotheses; an empty one counts as one token."""
        return log_prob / self._weight[length]

    def verdict(self, pool: Pool, best: float, length: int) -> str | None:
        """Why a request is done, None if it is not: `best` is the sum of its best live row, -inf without any."""
        if best == -math.inf:
            return "no hypothesis is left that could go on" + (" (max_length)" if length >= self._max_length else "")
        if len(pool) < self.enough:
            return None
        if self._margin is not None and best < pool.top - self._margin:
            return f"the best live hypothesis is more than {self._margin:g} (stop_margin) below the best finished one"
        if self._name == "proven":
            answers = pool.best[: self._answers]
            safe = not self._stays or best <= min(answer.log_prob for answer in answers)
            sure = safe and best / self._widest[length] <= answers[-1].score
            return "no live hypothesis can ever beat the answers (proven)" if sure else None
        return None if self._name == "exhaustive" else self._heuristic(pool, best, length)

    def _heuristic(self, pool: Pool, best: float, length: int) -> str | None:
        """The verdict of "true", "false" and "never"."""
        if len(pool) < self._need:
            return None
        if self._name == "true":
            return f"{self._need} hypotheses are finished"
        ended = self.score(best, max(length, self._flatters))
        return f"no live hypothesis would beat the {self._need} finished ones" if ended <= pool.best[-1].score else None


def _descending(finished: Finished) -> float:
    return -finished.score
