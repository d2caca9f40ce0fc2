"""Candidates in a kernel: 64-bit keys, the k best of a tile, and a running log-sum-exp.

A key is the logit's bits, made to compare as integers do, above the inverted token id. So the largest key is the best
candidate, equal logits come in the order of their ids, and no two keys are equal: the answer is the same however
the tokens were divided.
"""

from __future__ import annotations

import triton
import triton.language as tl

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
def best_of(kept, fresh, k: tl.constexpr, width: tl.constexpr):
    """The k best keys [rows, width] of those `kept` [rows, width] and `fresh` [rows, n], best first."""
    column = tl.arange(0, width)[None, :]
    best = tl.full(kept.shape, LEAST, tl.int64)
    for place in range(k):
        top = tl.maximum(tl.max(kept, axis=1), tl.max(fresh, axis=1))
        best = tl.where(column == place, top[:, None], best)
        kept = tl.where(kept == top[:, None], LEAST, kept)
        fresh = tl.where(fresh == top[:, None], LEAST, fresh)
    return best


@triton.jit
def add_mass(highest, total, logit):
    """A running maximum [rows] and sum of exp(logit - maximum) [rows], with a tile of logits [rows, n] added."""
    new = tl.maximum(highest, tl.max(logit, axis=1))
    return new, total * tl.exp(highest - new) + tl.sum(tl.exp(logit - new[:, None]), axis=1)


@triton.jit
def merge_kernel(
    key,  # [rows, splits, width] int64
    highest,  # [rows, splits] float32
    total,  # [rows, splits] float32
    best_logit,  # [rows, k] float32
    best_token,  # [rows, k] int32
    log_sum,  # [rows] float32
    splits,
    k: tl.constexpr,
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
    item = tl.arange(0, padded * width)
    keys = tl.load(key + row * splits * width + item, mask=item < splits * width, other=LEAST)
    for rank in range(k):
        top = tl.max(keys, axis=0)
        tl.store(best_logit + row * k + rank, logit_of(top))
        tl.store(best_token + row * k + rank, token_of(top))
        keys = tl.where(keys == top, LEAST, keys)
