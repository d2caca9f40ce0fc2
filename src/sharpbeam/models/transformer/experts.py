"""Mixture of experts in PyTorch (GShard: Lepikhin et al. 2021): a router sends each position to two of E experts.

Shapes: N positions, D hidden, E experts. No expert has a limit, so no position is dropped, in training neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Routing:
    """The two experts of each position."""

    expert: Tensor  # [N, 2] int64, the better one first; ties by lower number
    gate: Tensor  # [N, 2] float32
    balance: Tensor  # load-balancing loss: 1 if all experts are chosen equally often, up to E


def route(logits: Tensor, normalized: bool) -> Routing:
    """The routing by router logits [N, E] in float32; `normalized` gates sum to 1."""
    experts = logits.shape[-1]
    share = torch.softmax(logits, dim=-1)
    best = logits.argmax(dim=-1, keepdim=True)
    second = logits.scatter(-1, best, float("-inf")).argmax(dim=-1, keepdim=True)
    expert = torch.cat([best, second], dim=-1)
    gate = share.gather(-1, expert)
    if normalized:
        gate = gate / gate.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(torch.float32).eps)
    often = F.one_hot(best[:, 0], experts).float().mean(dim=0)
    return Routing(expert, gate, experts * (often * share.mean(dim=0)).sum())


def mixture(x: Tensor, routing: Routing, apply: Callable[[int, Tensor], Tensor]) -> Tensor:
    """Each position's two answers times their gates: [N, D] -> [N, D]; `apply` gets an expert and its positions."""
    order = routing.expert.flatten().argsort(stable=True)
    counts = torch.bincount(routing.expert.flatten(), minlength=1).tolist()
    place = torch.div(order, 2, rounding_mode="floor")
    answers, begin = [], 0
    for expert, count in enumerate(counts):
        if count:
            answers.append(apply(expert, x[place[begin : begin + count]]))
        begin += count
    mixed = torch.cat(answers) * routing.gate.flatten()[order, None].to(answers[0].dtype) if answers else x
    result: Tensor = torch.zeros_like(x).to(mixed.dtype).index_add(0, place, mixed)
    return result
