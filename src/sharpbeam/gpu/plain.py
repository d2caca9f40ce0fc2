"""The operations of `kernels` in plain PyTorch: for a CPU, and what the kernels are held to.

Names, arguments and answers are those of `kernels`; answers stay on the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

MOST_K = 32  # best tokens that the kernels find: their registers hold no more
CELLS = 1 << 23  # logits in memory at a time, with keys of eight times their size


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


def keys_of(logit: Tensor, token: Tensor) -> Tensor:
    """64-bit keys of logits float32 and token ids: the best candidate has the largest, equal logits the lower id."""
    bits = (logit.float() + 0.0).view(torch.int32)
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return (ordered.long() << 32) | (0x7FFFFFFF - token.long())


def best_tokens(hidden: Tensor, weight: Tensor, bias: Tensor, k: int, *, tokens: IndexList | None = None) -> Best:
    """`kernels.best_tokens`."""
    best = Best.empty(len(hidden), k, hidden.device)
    best.logit[:], best.token[:] = float("-inf"), 0
    if tokens is None:
        token, chosen, added = torch.arange(len(weight), device=hidden.device), weight.float(), bias
    else:
        token = tokens.index[: int(tokens.count)].long()
        chosen, added = weight[token].float(), bias[token]
    size = max(1, CELLS // max(1, len(token)))
    for first in range(0, len(hidden), size):
        part = slice(first, first + size)
        logit = hidden[part].float() @ chosen.T + added
        best.log_sum[part] = torch.logsumexp(logit, dim=1)
        order = torch.topk(keys_of(logit, token), min(k, len(token)), dim=1).indices
        best.logit[part, : order.shape[1]] = logit.gather(1, order)
        best.token[part, : order.shape[1]] = token[order].int()
    return best


def union_of_sets(cluster: Tensor, token: Tensor, start: Tensor, largest: int, vocab_size: int) -> IndexList:
    """`kernels.union_of_sets`."""
    mask = torch.zeros(vocab_size, dtype=torch.int8, device=cluster.device)
    for own in set(cluster.tolist()):
        mask[token[int(start[own]) : int(start[own + 1])].long()] = 1
    index = mask.nonzero()[:, 0].to(torch.int32)
    return IndexList(index, torch.tensor([len(index)], dtype=torch.int32, device=mask.device))


def attend_cells(
    query: Tensor, pool: Tensor, table: Tensor, line: Tensor, length: Tensor, heads: int, scale: float,
    bias: Tensor | None = None, longest: int = 0,
) -> Tensor:  # fmt: skip
    """`kernels.attend_cells`; `longest` is the greatest length."""
    weights, values = weigh_cells(query, pool, table, line, length, heads, scale, bias, longest)
    return torch.einsum("rht,rthw->rhw", weights.to(values.dtype), values).flatten(1)


def weigh_cells(
    query: Tensor, pool: Tensor, table: Tensor, line: Tensor, length: Tensor, heads: int, scale: float,
    bias: Tensor | None, longest: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Weights [R, H, T] float32 and values [R, T, H, width]."""
    place = torch.arange(longest, device=query.device)
    there = place[None] < length[:, None]
    cells = torch.where(there, table[line.long(), :longest], 0).long()
    keys, values = pool[cells].reshape(*cells.shape, 2, heads, -1).unbind(2)
    score = torch.einsum("rhw,rthw->rht", query.reshape(len(query), heads, -1), keys).float() * scale
    if bias is not None:
        distance = (length[:, None] - 1 - place[None]).clamp(0, bias.shape[1] - 1)
        score = score + bias[:, distance.long()].movedim(0, 1)
    return torch.softmax(score.masked_fill(~there[:, None], float("-inf")), dim=-1), values
