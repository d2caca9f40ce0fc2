"""Launches of the kernels: `best_tokens`, the shapes of its blocks and its two steps; and the other operations."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from sharpbeam.gpu.kernels.attention import attend_cells
from sharpbeam.gpu.kernels.scoring import merge_kernel, product_kernel
from sharpbeam.gpu.kernels.union import union_of_sets
from sharpbeam.gpu.plain import Best, IndexList

__all__ = ["Blocks", "attend_cells", "best_tokens", "union_of_sets"]
MULTIPROCESSORS = 132  # of an H100; the number of splits follows it


@dataclass(frozen=True)
class Blocks:
    """How the work is cut: rows, tokens and width of a tile, and how many programs share the tokens."""

    rows: int
    tokens: int
    width: int
    splits: int
    warps: int = 8

    @classmethod
    def fitting(cls, rows: int, tokens: int) -> Blocks:
        """Blocks for `rows` rows (of one group) and `tokens` tokens."""
        block = 16 if rows <= 16 else 32 if rows <= 32 else 64
        tiles = -(-tokens // 128)
        blocks = -(-rows // block)
        return cls(block, 128, 64, max(1, min(tiles, 2 * MULTIPROCESSORS // blocks, 256)))


def best_tokens(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    k: int,
    *,
    tokens: IndexList | None = None,
    blocks: Blocks | None = None,
) -> Best:
    """The k best tokens of hidden vectors [R, D] by weight [V, D] and bias [V] float32, and the log-sum-exp.

    Only the given `tokens` are scored.
    """
    count, size, device = len(hidden), len(weight), hidden.device
    best = Best.empty(count, k, device)
    if not count:
        return best
    cut, width = blocks or Blocks.fitting(count, size), triton.next_power_of_2(k)
    key = torch.empty((count, cut.splits, width), dtype=torch.int64, device=device)
    highest, total = torch.empty((2, count, cut.splits), dtype=torch.float32, device=device)
    none = torch.empty(1, dtype=torch.int32, device=device)
    product_kernel[(cut.splits, -(-count // cut.rows))](
        hidden, weight, bias,
        none if tokens is None else tokens.index, none if tokens is None else tokens.count,
        key, highest, total, count, size, hidden.shape[1], hidden.stride(0), weight.stride(0), cut.splits,
        has_tokens=tokens is not None, k=k, width=width,
        block_r=cut.rows, block_v=cut.tokens, block_d=cut.width, num_warps=cut.warps,
    )  # fmt: skip
    merge_kernel[(count,)](
        key, highest, total, best.logit, best.token, best.log_sum, cut.splits,
        k=k, width=width, padded=triton.next_power_of_2(cut.splits),
    )  # fmt: skip
    return best
