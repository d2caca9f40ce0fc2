"""Scoring in kernels: a matmul with a fused top-k and log-sum-exp, of which the logits [R, V] are never written.

A program takes some rows and every n-th tile of tokens. It keeps the k best keys and the running log-sum-exp of its
rows; a second kernel joins the programs. The tokens may be a list whose length only the device knows.

A key is the logit's bits, made to compare as integers do, above the inverted token id. So the largest key is the best
candidate, equal logits come in the order of their ids, and no two keys are equal: the answer is the same however
the tokens were divided.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from sharpbeam.gpu import plain
from sharpbeam.gpu.plain import MOST_K, Best, IndexList

MULTIPROCESSORS = 132  # of an H100; the number of splits follows it
LEAST = tl.constexpr(-(2**63) + 1)  # below every key: no candidate
LOWEST = tl.constexpr(-3.0e38)  # where a running maximum begins; finite, so that no difference is NaN
MINUS_INFINITY = tl.constexpr(float("-inf"))


@triton.jit
def key_of(logit, token):
    """Keys of logits float32 and their token ids, in the same shape."""
    bits = tl.where(logit == 0.0, 0.0, logit).to(tl.int32, bitcast=True)  # -0.0 is no other logit than 0.0
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return (ordered.to(tl.int64) << 32) | (0x7FFFFFFF - token).to(tl.int64)


@triton.jit
def logit_of(key):
    """The logit of a key; -inf where there is no candidate."""
    ordered = (key >> 32).to(tl.int32)
    bits = ordered ^ ((ordered >> 31) & 0x7FFFFFFF)
    return tl.where(key == LEAST, MINUS_INFINITY, bits.to(tl.float32, bitcast=True))


@triton.jit
def token_of(key):
    """The token id of a key; 0 where there is no candidate."""
    return tl.where(key == LEAST, 0, (0x7FFFFFFF - (key & 0x7FFFFFFF)).to(tl.int32))


@triton.jit
def best_of(leading, fresh, k, width: tl.constexpr):
    """The k best keys [rows, width] of those `leading` [rows, width] and `fresh` [rows, n], best first."""
    column = tl.arange(0, width)[None, :]
    best = tl.full(leading.shape, LEAST, tl.int64)
    for place in range(k):
        top = tl.maximum(tl.max(leading, axis=1), tl.max(fresh, axis=1))
        best = tl.where(column == place, top[:, None], best)
        leading = tl.where(leading == top[:, None], LEAST, leading)
        fresh = tl.where(fresh == top[:, None], LEAST, fresh)
    return best


@triton.jit
def add_mass(highest, total, logit):
    """A running maximum [rows] and sum of exp(logit - maximum) [rows], with a tile of logits [rows, n] added."""
    new = tl.maximum(highest, tl.max(logit, axis=1))
    return new, total * tl.exp(highest - new) + tl.sum(tl.exp(logit - new[:, None]), axis=1)


@triton.jit(do_not_specialize=["splits", "k"])
def merge_kernel(
    key,  # [rows, splits, width] int64, those of a split best first
    highest,  # [rows, splits] float32
    total,  # [rows, splits] float32
    best_logit,  # [rows, k] float32
    best_token,  # [rows, k] int32
    log_sum,  # [rows] float32
    splits,
    k,
    width: tl.constexpr,
    padded: tl.constexpr,  # splits, as a power of two
):
    """Join what the splits of the tokens found for one row."""
    row = tl.program_id(0)
    split = tl.arange(0, padded)
    at = row * splits + split
    peak = tl.load(highest + at, mask=split < splits, other=LOWEST)
    mass = tl.load(total + at, mask=split < splits, other=0.0)
    most = tl.max(peak, axis=0)
    sum_of_all = tl.sum(mass * tl.exp(peak - most), axis=0)
    some = sum_of_all > 0.0
    tl.store(log_sum + row, tl.where(some, most + tl.log(tl.where(some, sum_of_all, 1.0)), MINUS_INFINITY))
    own = key + at.to(tl.int64) * width
    place = tl.zeros((padded,), tl.int32)  # of each split's best key that is left
    head = tl.load(own, mask=split < splits, other=LEAST)
    for rank in range(k):
        top = tl.max(head, axis=0)
        tl.store(best_logit + row * k + rank, logit_of(top))
        tl.store(best_token + row * k + rank, token_of(top))
        place += (head == top).to(tl.int32)
        head = tl.load(own + place, mask=(split < splits) & (place < k), other=LEAST)


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
    leading, highest, total, k, width: tl.constexpr, block_d: tl.constexpr,
):  # fmt: skip
    """The k best keys and the running log-sum-exp of rows, with the lines of a tile of `weight` added."""
    logit = logits_of(hidden, weight, row, row_ok, line, line_ok, dim, hidden_stride, weight_stride, block_d)
    logit += tl.load(bias + line, mask=line_ok, other=0.0)[None, :]
    logit = tl.where(line_ok[None, :], logit, MINUS_INFINITY)
    highest, total = add_mass(highest, total, logit)
    key = tl.where(line_ok[None, :], key_of(logit, line[None, :]), LEAST)
    worst = tl.min(tl.where(tl.arange(0, width)[None, :] < k, leading, -LEAST), axis=1)
    if tl.max((tl.max(key, axis=1) > worst).to(tl.int32), axis=0) > 0:  # else no row has a new candidate
        leading = best_of(leading, key, k, width)
    return leading, highest, total


@triton.jit(do_not_specialize=["rows", "tokens", "splits", "k"])
def product_kernel(
    hidden,  # [all rows, D]
    weight,  # [V, D]
    bias,  # [V] float32
    token_list, token_count,  # [tokens] and [1] int32: the lines of `weight` to score; read if has_tokens
    keys, peaks, totals,  # [rows, splits, width] int64, [rows, splits] float32
    rows, tokens, dim, hidden_stride, weight_stride, splits, k,
    has_tokens: tl.constexpr, width: tl.constexpr,
    block_r: tl.constexpr, block_v: tl.constexpr, block_d: tl.constexpr,
):  # fmt: skip
    """Score one split of the tokens for one block of the rows."""
    split = tl.program_id(0)
    row = tl.program_id(1) * block_r + tl.arange(0, block_r)
    row_ok = row < rows
    if has_tokens:
        tokens = tl.load(token_count)
    leading = tl.full((block_r, width), LEAST, tl.int64)
    highest = tl.full((block_r,), LOWEST, tl.float32)
    total = tl.zeros((block_r,), tl.float32)
    for tile in range(split, tl.cdiv(tokens, block_v), splits):
        line = tile * block_v + tl.arange(0, block_v)
        line_ok = line < tokens
        if has_tokens:
            line = tl.load(token_list + line, mask=line_ok, other=0)
        leading, highest, total = take_tile(
            hidden, weight, bias, row, row_ok, line, line_ok, dim, hidden_stride, weight_stride,
            leading, highest, total, k, width, block_d,
        )  # fmt: skip
    at = row * splits + split
    tl.store(peaks + at, highest, mask=row_ok)
    tl.store(totals + at, total, mask=row_ok)
    tl.store(keys + at[:, None] * width + tl.arange(0, width)[None, :], leading, mask=row_ok[:, None])


@dataclass(frozen=True)
class Blocks:
    """How the work is cut: rows, tokens and width of a tile, and how many programs share the tokens."""

    rows: int
    tokens: int
    width: int
    splits: int
    warps: int = 8

    @classmethod
    def fitting(cls, rows: int, tokens: int, size: int) -> Blocks:
        """Blocks for `rows` rows and `tokens` tokens, of numbers of `size` bytes."""
        block = 16 if rows <= 16 else 32 if rows <= 32 else 64
        tiles = -(-tokens // 128)
        blocks = -(-rows // block)
        return cls(block, 128, 128 // size, max(1, min(tiles, 2 * MULTIPROCESSORS // blocks, 256)))


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

    Only the given `tokens` are scored. More than MOST_K best ones are PyTorch's.
    """
    if k > MOST_K:
        return plain.best_tokens(hidden, weight, bias, k, tokens=tokens)
    count, size, device = len(hidden), len(weight), hidden.device
    best = Best.empty(count, k, device)
    if not count:
        return best
    cut = blocks or Blocks.fitting(count, size, hidden.element_size())
    width = max(16, triton.next_power_of_2(k))  # of few forms, since each one is compiled
    key = torch.empty((count, cut.splits, width), dtype=torch.int64, device=device)
    highest, total = torch.empty((2, count, cut.splits), dtype=torch.float32, device=device)
    none = torch.empty(1, dtype=torch.int32, device=device)
    product_kernel[(cut.splits, -(-count // cut.rows))](
        hidden, weight, bias,
        none if tokens is None else tokens.index, none if tokens is None else tokens.count,
        key, highest, total, count, size, hidden.shape[1], hidden.stride(0), weight.stride(0), cut.splits, k,
        has_tokens=tokens is not None, width=width,
        block_r=cut.rows, block_v=cut.tokens, block_d=cut.width, num_warps=cut.warps,
    )  # fmt: skip
    merge_kernel[(count,)](
        key, highest, total, best.logit, best.token, best.log_sum, cut.splits, k,
        width=width, padded=triton.next_power_of_2(cut.splits),
    )  # fmt: skip
    return best
