"""Muon (Jordan et al. 2024): steps along the momentum of a matrix, made orthogonal."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

MOMENTUM = 0.95
STEPS, COEFFICIENTS = 5, (3.4445, -4.7750, 2.0315)  # of the Newton-Schulz iteration, as published
SIZE = 0.2  # root mean square of a step over the rate, which is Adam's (Liu et al. 2025)


class Muon(torch.optim.Optimizer):
    """As torch.optim.Muon without weight decay, which always multiplies in bfloat16.

    Without instructions for it a processor takes 20 times as long.
    """

    def __init__(self, matrices: Iterable[nn.Parameter], dtype: torch.dtype) -> None:
        """Take steps of `matrices`, made orthogonal in `dtype`; their rate is set before each step."""
        super().__init__(matrices, {"lr": 0.0})
        self._dtype = dtype

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Take one step with Nesterov momentum."""
        for group in self.param_groups:
            for matrix in group["params"]:
                if "momentum_buffer" not in self.state[matrix]:
                    self.state[matrix]["momentum_buffer"] = torch.zeros_like(matrix)
                momentum = self.state[matrix]["momentum_buffer"]
                momentum.lerp_(matrix.grad, 1 - MOMENTUM)
                update = orthogonal(matrix.grad.lerp(momentum, MOMENTUM).to(self._dtype))
                matrix.add_(update, alpha=-group["lr"] * SIZE * math.sqrt(max(matrix.shape)))


def orthogonal(matrix: Tensor) -> Tensor:
    """A matrix of about the same singular vectors whose singular values are from .7 to 1.2."""
    a, b, c = COEFFICIENTS
    x = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(STEPS):
        product = x @ x.T
        x = torch.addmm(x, torch.addmm(product, product, product, beta=b, alpha=c), x, beta=a)
    return x.T if matrix.shape[0] > matrix.shape[1] else x
