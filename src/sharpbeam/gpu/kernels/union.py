"""The union of the token sets of a batch (CVP section 2.3): a mask, and its compaction to a list of ids."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from sharpbeam.gpu.plain import IndexList

BLOCK = 1024


@triton.jit
def mark_kernel(cluster, token, start, mask, block: tl.constexpr):
    """Mark the tokens of one row's set, a block at a time; rows that mark the same token write the same."""
    own = tl.load(cluster + tl.program_id(0))
    low, high = tl.load(start + own), tl.load(start + own + 1)
    at = low + tl.program_id(1) * block + tl.arange(0, block)
    ids = tl.load(token + at, mask=at < high, other=0)
    tl.store(mask + ids, tl.full((block,), 1, tl.int8), mask=at < high)


@triton.jit
def count_kernel(mask, count, size, block: tl.constexpr):
    """Count the marks of one block."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    marks = tl.load(mask + at, mask=at < size, other=0).to(tl.int32)
    tl.store(count + tl.program_id(0), tl.sum(marks, axis=0))


@triton.jit
def list_kernel(mask, upto, index, size, block: tl.constexpr):
    """List the marked places of one block after those of the blocks before it."""
    here = tl.program_id(0)
    at = here * block + tl.arange(0, block)
    marks = tl.load(mask + at, mask=at < size, other=0).to(tl.int32)
    before = tl.load(upto + here) - tl.sum(marks, axis=0)
    tl.store(index + before + tl.cumsum(marks, axis=0) - 1, at, mask=marks > 0)


def union_of_sets(cluster: Tensor, token: Tensor, start: Tensor, largest: int, vocab_size: int) -> IndexList:
    """The tokens that are in the set of any row's cluster [R] int32, ascending; their number stays on the device.

    The sets are token[start[c] : start[c + 1]], int32; `largest` is the size of the largest one.
    """
    mask = torch.zeros(vocab_size, dtype=torch.int8, device=cluster.device)
    if len(cluster):
        mark_kernel[(len(cluster), -(-largest // BLOCK))](cluster, token, start, mask, block=BLOCK)
    blocks = -(-vocab_size // BLOCK)
    count = torch.empty(blocks, dtype=torch.int32, device=mask.device)
    index = torch.empty(vocab_size, dtype=torch.int32, device=mask.device)
    count_kernel[(blocks,)](mask, count, vocab_size, block=BLOCK)
    upto = torch.cumsum(count, 0, dtype=torch.int32)
    list_kernel[(blocks,)](mask, upto, index, vocab_size, block=BLOCK)
    return IndexList(index, upto[-1:])
