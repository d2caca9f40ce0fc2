"""Attention of one query a row to keys and values that are found through a table, not copied together.

A cell of a pool holds the key and value of one token. A table names the cells of a sequence in their order, so rows
that share a beginning share its cells, and a beam that is reordered copies numbers, not vectors.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from sharpbeam.gpu.kernels.scoring import LOWEST, MINUS_INFINITY

BLOCK = 32  # cells at a time


@triton.jit
def attention_kernel(
    query,  # [R, H * width]
    pool,  # [cells, 2 * H * width]: keys, then values
    table,  # [rows of the table, most] int32
    line, length,  # [R] int32: each row's line of the table, and how many of its cells count
    bias,  # [H, distances] float32: what is added to a score by the distance to the last cell; read if biased
    answer,  # [R, H * width]
    most, heads, width, distances, scale,
    biased: tl.constexpr, padded: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """The attention of one head of one row, in one pass over its cells."""
    row, head = tl.program_id(0), tl.program_id(1)
    count = tl.load(length + row)
    names = table + tl.load(line + row).to(tl.int64) * most
    column = tl.arange(0, padded)
    column_ok = column < width
    own = tl.load(query + (row * heads + head) * width + column, mask=column_ok, other=0.0).to(tl.float32)
    highest, total = tl.full((1,), LOWEST, tl.float32), tl.zeros((1,), tl.float32)
    result = tl.zeros((1, padded), tl.float32)
    for first in range(0, count, block):
        at = first + tl.arange(0, block)
        ok = (at < count)[:, None] & column_ok[None, :]
        cell = tl.load(names + at, mask=at < count, other=0).to(tl.int64)
        key = pool + cell[:, None] * (2 * heads * width) + head * width + column[None, :]
        score = tl.sum(own[None, :] * tl.load(key, mask=ok, other=0.0).to(tl.float32), axis=1) * scale
        if biased:
            score += tl.load(bias + head * distances + tl.minimum(count - 1 - at, distances - 1), mask=at < count)
        score = tl.where(at < count, score, MINUS_INFINITY)[None, :]
        new = tl.maximum(highest, tl.max(score, axis=1))
        share, weight = tl.exp(highest - new), tl.exp(score - new[:, None])
        value = tl.load(key + heads * width, mask=ok, other=0.0).to(tl.float32)
        result = result * share[:, None] + tl.sum(tl.trans(weight) * value, axis=0)[None, :]
        total, highest = total * share + tl.sum(weight, axis=1), new
    out = tl.reshape(result / total[:, None], (padded,))
    tl.store(answer + (row * heads + head) * width + column, out.to(answer.dtype.element_ty), mask=column_ok)


def attend_cells(
    query: Tensor, pool: Tensor, table: Tensor, line: Tensor, length: Tensor, heads: int, scale: float,
    bias: Tensor | None = None, longest: int = 0,
) -> Tensor:  # fmt: skip
    """Queries [R, A] to the first `length` [R] int32 cells of their lines [R] int32 of `table`; returns [R, A].

    `pool` [cells, 2 A] has keys, then values; `bias` [H, distances] float32 is added by the distance to the last cell.
    No length is 0. `longest` is not needed: a graph of this launch serves every length.
    """
    answer, width = torch.empty_like(query), query.shape[1] // heads
    attention_kernel[(len(query), heads)](
        query, pool, table, line, length, query if bias is None else bias, answer,
        table.shape[1], heads, width, 1 if bias is None else bias.shape[1], scale,
        biased=bias is not None, padded=max(16, triton.next_power_of_2(width)), block=BLOCK,
    )  # fmt: skip
    return answer
