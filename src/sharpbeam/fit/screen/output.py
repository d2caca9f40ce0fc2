"""The output layer that a screen is fitted for, and what the exact layer says of recorded steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sharpbeam.fit.screen.collect import Records
from sharpbeam.types import Floats

NEVER = float(np.finfo(np.float32).max)  # an offset that sends every row back; its negative sends none


@dataclass(frozen=True)
class Output:
    """The output layer that a screen is fitted for."""

    weight: Floats  # [V, D]
    bias: Floats  # [V]


def totals(output: Output, records: Records) -> Floats:
    """log Z [n] of the exact layer."""
    word = records["token"][:, 0]
    logit = np.einsum("nd,nd->n", records["hidden"], output.weight[word]) + output.bias[word]
    return np.asarray(logit - records["log_prob"][:, 0], np.float32)
