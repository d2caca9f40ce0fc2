"""The operations of `kernels` in plain PyTorch: for a CPU, and what the kernels are held to.

Names, arguments and answers are those of `kernels.launch`, `kernels.union` and `kernels.attention`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sharpbeam.gpu.answers import Best, IndexList

LEAST = -(2**63) + 1  # below every key: no candidate


def keys_of(logit: Tensor, token: Tensor) -> Tensor:
    """64-bit keys of logits float32 and token ids: the best candidate has the largest, equal logits the lower id."""
    bits = (logit.float() + 0.0).view(torch.int32)
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return (ordered.long() << 32) | (0x7FFFFFFF - token.long())


def best_tokens(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    k: int,
    *,
    rows: IndexList | None = None,
    tokens: IndexList | None = None,
    into: Best | None = None,
) -> Best:
    """`kernels.launch.best_tokens`."""
    best = into or Best.empty(len(hidden), k, hidden.device)
    row = torch.arange(len(hidden), device=hidden.device) if rows is None else _listed(rows)
    token = torch.arange(len(weight), device=hidden.device) if tokens is None else _listed(tokens)
    logit = hidden[row].float() @ weight[token].float().T + bias[token]
    best.log_sum[row] = torch.logsumexp(logit, dim=1)
    key = torch.full((len(row), max(k, len(token))), LEAST, dtype=torch.int64, device=hidden.device)
    key[:, : len(token)] = keys_of(logit, token)
    place = torch.topk(key, k, dim=1)
    there = place.values != LEAST
    at = place.indices.clamp(max=max(len(token) - 1, 0))
    if len(token):
        best.logit[row] = torch.where(there, logit.gather(1, at), float("-inf"))
        best.token[row] = torch.where(there, token[at], 0).to(torch.int32)
    else:
        best.logit[row], best.token[row] = float("-inf"), 0
    return best


def best_of_sets(
    hidden: Tensor,
    cluster: Tensor,
    weight: Tensor,
    bias: Tensor,
    token: Tensor,
    start: Tensor,
    largest: int,
    k: int,
) -> Best:
    """`kernels.launch.best_of_sets`."""
    best = Best.empty(len(hidden), k, hidden.device)
    for own in set(cluster.tolist()):
        row = (cluster == own).nonzero()[:, 0]
        part = slice(int(start[own]), int(start[own + 1]))
        own_best = best_tokens(hidden[row], weight[part], bias[part], k)
        there = own_best.logit > float("-inf")
        best.logit[row], best.log_sum[row] = own_best.logit, own_best.log_sum
        best.token[row] = torch.where(there, token[part][own_best.token.long()], 0) if there.any() else own_best.token
    return best


def marked(mask: Tensor) -> IndexList:
    """`kernels.union.marked`."""
    index = mask.nonzero()[:, 0].to(torch.int32)
    return IndexList(index, torch.tensor([len(index)], dtype=torch.int32, device=mask.device))


def union_of_sets(cluster: Tensor, token: Tensor, start: Tensor, largest: int, vocab_size: int) -> IndexList:
    """`kernels.union.union_of_sets`."""
    mask = torch.zeros(vocab_size, dtype=torch.int8, device=cluster.device)
    for own in set(cluster.tolist()):
        mask[token[int(start[own]) : int(start[own + 1])].long()] = 1
    return marked(mask)


def attend_cells(
    query: Tensor, pool: Tensor, table: Tensor, line: Tensor, length: Tensor, heads: int, scale: float,
    bias: Tensor | None = None, longest: int = 0,
) -> Tensor:  # fmt: skip
    """`kernels.attention.attend_cells`; `longest` is the greatest length."""
    weights, values = _weigh(query, pool, table, line, length, heads, scale, bias, longest)
    return torch.einsum("rht,rthw->rhw", weights.to(values.dtype), values).flatten(1)


def weights_of_cells(
    query: Tensor, pool: Tensor, table: Tensor, line: Tensor, length: Tensor, heads: int, scale: float, longest: int
) -> Tensor:
    """The weights of `attend_cells`, the mean over the heads: [R, longest] float32."""
    return _weigh(query, pool, table, line, length, heads, scale, None, longest)[0].mean(1)


def _weigh(
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


def _listed(some: IndexList) -> Tensor:
    return some.index[: int(some.count)].long()
