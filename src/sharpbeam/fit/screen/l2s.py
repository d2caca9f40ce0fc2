"""Learning to screen: clusters and sets are learned together (L2S section 3, algorithm 1).

Steps of two halves. With the sets fixed, the cluster weights V follow the gradient of eq. 8: a row's cluster is drawn
from softmax(V h) by the Gumbel trick, one-hot in the forward pass, softmax in the backward pass (straight-through).
With V fixed, the sets come from the greedy knapsack. V starts as the spherical k-means, and the round with the least
loss of eq. 7 is kept, so the result is never worse than the start by the measure that is optimized.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from sharpbeam.fit.screen.clusters import Counts, Tally, knapsack
from sharpbeam.types import Floats, Ids

PENALTY = 0.0003  # lambda of eq. 6: what a token that is kept but not needed costs, against a miss
OVERDRAFT = 10.0  # gamma of eq. 8: what a token of the average set above the budget costs
MARGIN = 8.0  # of the first weights: the mean lead of the best cluster's logit; Gumbel noise spreads by 1.3
BATCH = 512
STEPS = 1500  # of gradient descent, in each round
RATE = 0.003  # Adam's, in units of the weights' root mean square
MEMORY = 0.99  # of the moving average of the set size


@dataclass(frozen=True)
class L2sTask:
    """The training data: hidden vectors, their exact top k, and the limits on the sets."""

    hidden: Floats  # [n, D]
    top: Ids  # [n, k]
    vocab: int
    always: Ids  # tokens of every set
    budget: float  # average tokens of a set

    def counts(self, weight: Floats) -> Counts:
        """Needs of each cluster."""
        tally = Tally(weight, np.zeros(len(weight), np.float32), self.vocab, self.top.shape[1])
        tally.add(self.hidden, self.top)
        return tally.counts(self.always)


def learn(task: L2sTask, weight: Floats, rounds: int, seed: int, steps: int = STEPS) -> Floats:
    """Cluster weights [C, D], without bias, learned from the spherical k-means `weight` [C, D] in `rounds` rounds."""
    torch.manual_seed(seed)
    logits = np.sort(task.hidden[:: max(1, len(task.hidden) // 4096)] @ weight.T, axis=1)
    lead = float((logits[:, -1] - logits[:, -2]).mean()) if logits.shape[1] > 1 else 1.0  # of the best over the second
    weight = weight * np.float32(MARGIN / max(lead, 1e-6))
    best, least = weight, np.inf
    for number in range(rounds + 1):
        counts = task.counts(weight)
        selection = knapsack(counts, task.budget)
        loss = objective(counts, selection, task.top.size)
        if loss < least:
            best, least = weight, loss
        if number < rounds:
            weight = _descend(task, weight, counts, selection, steps)
    return best


def objective(counts: Counts, selection: NDArray[np.bool_], needed: int) -> float:
    """The loss of eq. 7, summed over all vectors, whose top k are `needed` tokens together.

    A needed token that is missing costs 1, a selected token that is not needed costs lambda.
    """
    hits = int(counts.count[selection].sum())
    offered = int(counts.rows[counts.cluster[selection]].sum())
    return float(needed - hits + PENALTY * (offered - hits))


def _descend(task: L2sTask, weight: Floats, counts: Counts, selection: NDArray[np.bool_], steps: int) -> Floats:
    """So many steps of Adam on eq. 8 with fixed sets; its rate falls to zero."""
    clusters = len(weight)
    member = torch.zeros(clusters, task.vocab)
    member[torch.from_numpy(counts.cluster[selection]).long(), torch.from_numpy(counts.token[selection]).long()] = 1.0
    by_token = member.T.contiguous()  # [V, C]
    size = member.sum(dim=1)  # [C]
    v = torch.from_numpy(weight.copy()).requires_grad_()
    optimizer = torch.optim.Adam([v], lr=RATE * float(np.sqrt(np.mean(weight**2))))
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    average: Tensor | None = None
    for _ in range(steps):
        rows = torch.randint(len(task.hidden), (BATCH,)).numpy()
        logits = torch.from_numpy(task.hidden[rows]) @ v.T
        choice = functional.gumbel_softmax(logits, tau=1.0, hard=True)  # [B, C]
        hits = by_token[torch.from_numpy(task.top[rows]).long()].sum(dim=1)  # [B, C] needed tokens of each set
        loss = (choice * (task.top.shape[1] - hits + PENALTY * (size - hits))).sum(dim=1).mean()
        used = (choice @ size).mean()
        average = used if average is None else MEMORY * average.detach() + (1 - MEMORY) * used
        loss = loss + OVERDRAFT * functional.relu(average - task.budget)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        schedule.step()
    return v.detach().numpy()
