"""Answers of the kernels that stay on the device: the best tokens, and lists whose length only it knows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Best:
    """The k best tokens of each row, best first, ties by lower id; and the log-sum-exp over all that were scored.

    A row with fewer than k candidates has token 0 at -inf in the other places.
    """

    logit: Tensor  # [R, k] float32
    token: Tensor  # [R, k] int32
    log_sum: Tensor  # [R] float32

    @classmethod
    def empty(cls, rows: int, k: int, device: torch.device) -> Best:
        """Memory for an answer."""
        logit = torch.empty((rows, k), dtype=torch.float32, device=device)
        token = torch.empty((rows, k), dtype=torch.int32, device=device)
        return cls(logit, token, torch.empty(rows, dtype=torch.float32, device=device))


@dataclass(frozen=True)
class IndexList:
    """Indices in a list whose length only the device knows."""

    index: Tensor  # [most] int32, of which the first `count` are in the list
    count: Tensor  # [1] int32
