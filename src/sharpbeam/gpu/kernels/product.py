"""Matmul with a fused top-k and log-sum-exp: the logits [R, V] are never written.

A program takes some rows and every n-th tile of tokens. It keeps the k best keys and the running log-sum-exp of its
rows; a second kernel joins the programs. The tokens may be a list whose length only the device knows.
"""

from __future__ import annotations

import triton
import triton.language as tl

from sharpbeam.gpu.kernels.candidates import LEAST, LOWEST, MINUS_INFINITY, add_mass, best_of, key_of


@triton.jit
def logits_of(hidden, weight, row, row_ok, line, line_ok, dim, hidden_stride, weight_stride, block_d: tl.constexpr):
    """The products [rows, lines] float32 of rows of `hidden` and lines of `weight`, both of width `dim`."""
    result = tl.zeros((row.shape[0], line.shape[0]), tl.float32)
    left = hidden + row.to(tl.int64)[:, None] * hidden_stride
    right = weight + line.to(tl.int64)[None, :] * weight_stride
    for first in tl.range(0, dim, block_d, num_stages=3):
        at = first + tl.arange(0, block_d)
        h = tl.load(left + at[None, :], mask=row_ok[:, None] & (at < dim)[None, :], other=0.0)
        w = tl.load(right + at[:, None], mask=line_ok[None, :] & (at < dim)[:, None], other=0.0)
        result = tl.dot(h, w, result, input_precision="ieee")
    return result


@triton.jit
def take_tile(
    hidden, weight, bias, row, row_ok, line, line_ok, dim, hidden_stride, weight_stride,
    kept, highest, total, k: tl.constexpr, width: tl.constexpr, block_d: tl.constexpr,
):  # fmt: skip
    """The k best keys and the running log-sum-exp of rows, with the lines of a tile of `weight` added."""
    logit = logits_of(hidden, weight, row, row_ok, line, line_ok, dim, hidden_stride, weight_stride, block_d)
    logit += tl.load(bias + line, mask=line_ok, other=0.0)[None, :]
    logit = tl.where(line_ok[None, :], logit, MINUS_INFINITY)
    highest, total = add_mass(highest, total, logit)
    key = tl.where(line_ok[None, :], key_of(logit, line[None, :]), LEAST)
    worst = tl.min(tl.where(tl.arange(0, width)[None, :] < k, kept, -LEAST), axis=1)
    if tl.max((tl.max(key, axis=1) > worst).to(tl.int32), axis=0) > 0:  # else no row has a new candidate
        kept = best_of(kept, key, k, width)
    return kept, highest, total


@triton.jit
def product_kernel(
    hidden,  # [all rows, D]
    weight,  # [V, D]
    bias,  # [V] float32
    token_list, token_count,  # [tokens] and [1] int32: the lines of `weight` to score; read if has_tokens
    keys, peaks, totals,  # [rows, splits, width] int64, [rows, splits] float32
    rows, tokens, dim, hidden_stride, weight_stride, splits,
    has_tokens: tl.constexpr, k: tl.constexpr, width: tl.constexpr,
    block_r: tl.constexpr, block_v: tl.constexpr, block_d: tl.constexpr,
):  # fmt: skip
    """Score one split of the tokens for one block of the rows."""
    split = tl.program_id(0)
    row = tl.program_id(1) * block_r + tl.arange(0, block_r)
    row_ok = row < rows
    if has_tokens:
        tokens = tl.load(token_count)
    kept = tl.full((block_r, width), LEAST, tl.int64)
    highest = tl.full((block_r,), LOWEST, tl.float32)
    total = tl.zeros((block_r,), tl.float32)
    for tile in range(split, tl.cdiv(tokens, block_v), splits):
        line = tile * block_v + tl.arange(0, block_v)
        line_ok = line < tokens
        if has_tokens:
            line = tl.load(token_list + line, mask=line_ok, other=0)
        kept, highest, total = take_tile(
            hidden, weight, bias, row, row_ok, line, line_ok, dim, hidden_stride, weight_stride,
            kept, highest, total, k, width, block_d,
        )  # fmt: skip
    at = row * splits + split
    tl.store(peaks + at, highest, mask=row_ok)
    tl.store(totals + at, total, mask=row_ok)
    tl.store(keys + at[:, None] * width + tl.arange(0, width)[None, :], kept, mask=row_ok[:, None])
