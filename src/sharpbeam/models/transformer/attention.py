"""Attention in PyTorch: scores, softmax, and biases of scores by relative position.

Shapes as in module.py.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sharpbeam.models.transformer.config import Side, TransformerConfig
from sharpbeam.models.transformer.positions import relative_buckets

# The bias of the scores of one self-attention [.., H, T, S], by a layer's own table; None without relative positions.
PositionBias = Callable[[Tensor | None], Tensor | None]


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    visible: Tensor | None,
    heads: int,
    scaled: bool = True,
    bias: Tensor | None = None,
) -> Tensor:
    """Queries [B, T, A], keys and values [B, S, A] -> [B, T, A], H heads side by side.

    `visible` says which positions a query may look at, a bool mask that broadcasts to [B, H, T, S]; None for all.
    Scores are divided by the root of a head's width if `scaled`; `bias` [.., H, T, S] is added to them. Matmuls and
    softmax stand here one by one: PyTorch's joint call takes longer for sentences on a CPU, above all backwards.
    """
    query, keys, values = (x.reshape(*x.shape[:-1], heads, -1).transpose(1, 2) for x in (query, keys, values))
    scores = torch.matmul(query, keys.transpose(-1, -2)).float()
    if scaled:
        scores = scores * query.shape[-1] ** -0.5
    if bias is not None:
        scores = scores + bias
    if visible is not None:
        scores = scores.masked_fill(~visible, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    return torch.matmul(weights.to(values.dtype), values).transpose(1, 2).flatten(2)


def position_bias(config: TransformerConfig, side: Side) -> nn.Parameter:
    """A table of biases of scores, by bucket and head."""
    return nn.Parameter(torch.randn(config.relative_buckets, config.heads(side)) * config.hidden_dim**-0.5)


def bias_at(config: TransformerConfig, side: Side, relative: Tensor, shared: Tensor | None) -> PositionBias:
    """The biases of queries and keys at positions that are `relative` to each other, [.., T, S] (key - query).

    `shared` is the table of all layers, for those without one of their own.
    """
    if not config.positions.startswith("relative"):
        return lambda own: None
    most = config.relative_distance
    buckets = torch.from_numpy(relative_buckets(config.relative_buckets, most, side == "encoder"))
    bucket = buckets.to(relative.device)[relative.clamp(-most, most) + most]

    def of(own: Tensor | None) -> Tensor | None:
        table = shared if own is None else own
        return None if table is None else F.embedding(bucket, table).movedim(-1, -3)

    return of
