"""Launches of the kernels that score tokens: shapes of blocks, buffers, and the two steps of each."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sharpbeam.gpu.answers import Best, IndexList
from sharpbeam.gpu.kernels.candidates import merge_kernel
from sharpbeam.gpu.kernels.product import product_kernel

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
    def fitting(cls, rows: int, tokens: int, fixed: Blocks | None = None) -> Blocks:
        """Blocks for `rows` rows (of one group) and `tokens` tokens, or those `fixed`."""
        if fixed is not None:
            return fixed
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
    count, size = len(hidden), len(weight)
    cut = Blocks.fitting(count, size, blocks)
    best = Best.empty(count, k, hidden.device)
    buffers = _Buffers.of(count, cut.splits, k, hidden.device)
    if not count:
        return best
    none = torch.empty(1, dtype=torch.int32, device=hidden.device)
    product_kernel[(cut.splits, -(-count // cut.rows))](
        hidden, weight, bias,
        none if tokens is None else tokens.index, none if tokens is None else tokens.count,
        *buffers.each, count, size, hidden.shape[1], hidden.stride(0), weight.stride(0), cut.splits,
        has_tokens=tokens is not None, k=k, width=buffers.width,
        block_r=cut.rows, block_v=cut.tokens, block_d=cut.width, num_warps=cut.warps,
    )  # fmt: skip
    _merge(buffers, best, k, cut.splits)
    return best


@dataclass(frozen=True)
class _Buffers:
    """Findings of the programs, for the merge."""

    key: Tensor  # [R, splits, width] int64
    highest: Tensor  # [R, splits] float32
    total: Tensor  # [R, splits] float32

    @classmethod
    def of(cls, rows: int, splits: int, k: int, device: torch.device) -> _Buffers:
        sums = torch.empty((2, rows, splits), dtype=torch.float32, device=device)
        return cls(torch.empty((rows, splits, power_of_two(k)), dtype=torch.int64, device=device), *sums)

    @property
    def each(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.key, self.highest, self.total

    @property
    def width(self) -> int:
        return self.key.shape[2]


def _merge(buffers: _Buffers, best: Best, k: int, splits: int) -> None:
    merge_kernel[(len(buffers.key),)](
        *buffers.each, best.logit, best.token, best.log_sum, splits,
        k=k, width=buffers.width, padded=power_of_two(splits),
    )  # fmt: skip


def power_of_two(size: int) -> int:
    """The least power of two that is `size` or more."""
    return 1 << (size - 1).bit_length()
