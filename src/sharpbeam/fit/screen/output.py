"""The output layer that a screen is fitted for, and what the exact layer says of recorded steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sharpbeam.fit.screen.collect import Records
from sharpbeam.types import Floats

NEVER = float(np.finfo(np.float32).max)  # an offset with which every row falls back; with its negative none does


@dataclass(frozen=True)
class OutputMatrix:
    """The output layer that a screen is fitted for."""

    weight: Floats  # [V, D]
    bias: Floats  # [V]


@dataclass(frozen=True)
class Steps:
    """Recorded steps with what every setting needs of them, computed once."""

    records: Records  # [n]
    hidden: Floats  # [n, D], C-contiguous
    total: Floats  # [n] log Z of the exact layer

    @classmethod
    def of(cls, records: Records, output: OutputMatrix) -> Steps:
        """The steps `records` [n] of the layer `output`."""
        hidden, token = np.ascontiguousarray(records["hidden"]), records["token"][:, 0]
        logit = np.einsum("nd,nd->n", hidden, output.weight[token]) + output.bias[token]
        return cls(records, hidden, np.asarray(logit - records["log_prob"][:, 0], np.float32))

    def __len__(self) -> int:
        return len(self.records)

    def spread(self, most: int) -> Steps:
        """At most `most` of them, at equal distances."""
        if len(self) <= most:
            return self
        chosen = np.linspace(0, len(self) - 1, most).astype(np.int64)
        return Steps(self.records[chosen], self.hidden[chosen], self.total[chosen])
