"""Random cases for the operations on GPUs: what one of `OPERATIONS` answers, held to the NumPy reference.

Values are multiples of 1/8 (or of 1 for many ties), so that every order of summation gives the same logits: tokens must
be identical, not near. `operations` is a module pair: the kernels, in Triton's interpreter or on a device, or the
plain PyTorch form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from reference import candidates as reference

from sharpbeam.gpu.plain import Best, IndexList

LOG_SUM = 1e-3  # tolerance of a log-sum-exp
ATTENTION = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@dataclass(frozen=True)
class Operations:
    """The functions under test, on one device. `blocks` says how kernels cut the work, in random ways."""

    best_tokens: Callable[..., Best]
    union_of_sets: Callable[..., IndexList]
    attend_cells: Callable[..., torch.Tensor]
    device: torch.device
    blocks: Callable[[np.random.Generator], dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    """How one case went."""

    same: bool  # tokens, and logits to the bit; of attention: within its tolerance
    error: float  # the largest of the log-sum-exps, or of attention

    @property
    def holds(self) -> bool:
        return self.same and self.error <= LOG_SUM


def case(kind: str, seed: int, dtype: torch.dtype, operations: Operations, most_rows: int = 40) -> Outcome:
    """Run one random case of a kind, one of `KINDS`."""
    return KINDS[kind](Draw(seed, dtype, operations, most_rows))


class Draw:
    """Random shapes and values of one case."""

    def __init__(self, seed: int, dtype: torch.dtype, operations: Operations, most_rows: int) -> None:
        self.draw, self.dtype, self.operations = np.random.default_rng(seed), dtype, operations
        self.rows = int(self.draw.choice([r for r in (1, 2, 5, 17, 40, 640) if r <= most_rows]))
        self.width, self.vocab = int(self.draw.integers(1, 70)), int(self.draw.integers(1, 300))
        if operations.device.type == "cuda" and self.draw.random() < 0.5:  # as models have it
            self.width, self.vocab = 16 * int(self.draw.integers(1, 33)), int(self.draw.integers(300, 6000))
        self.k = int(self.draw.choice([1, 2, 3, 5, 8, 10, 16, 17, 24, 32, 33]))
        self.grain = float(self.draw.choice([1.0, 8.0]))  # 1: many ties
        self.hidden, self.weight = self.values(self.rows, self.width), self.values(self.vocab, self.width)
        self.bias = self.values(self.vocab)

    def values(self, *shape: int) -> np.ndarray:
        """Multiples of 1 / grain."""
        return (np.round(self.draw.normal(0, 1, shape) * self.grain) / self.grain).astype(np.float32)

    def sets(self, clusters: int) -> tuple[np.ndarray, np.ndarray]:
        """Token ids and beginnings of the sets of clusters; some are empty."""
        sets = [
            np.sort(self.draw.choice(self.vocab, int(self.draw.integers(0, self.vocab + 1)), replace=False))
            for _ in range(clusters)
        ]
        sets[0] = sets[0][:0]
        start = np.cumsum([0, *map(len, sets)]).astype(np.int32)
        return np.concatenate(sets).astype(np.int32), start

    def on(self, array: np.ndarray, low: bool = False) -> torch.Tensor:
        """An array on the device; `low`: in the number type of the case."""
        tensor = torch.from_numpy(np.ascontiguousarray(array)).to(self.operations.device)
        return tensor.to(self.dtype) if low else tensor

    @property
    def blocks(self) -> dict[str, Any]:
        return self.operations.blocks(self.draw)


def compare(result: Best, truth: reference.Candidates) -> Outcome:
    """Tokens and logits must be the reference's, log-sum-exps near."""
    logit, token, log_sum = (part.cpu().numpy() for part in (result.logit, result.token, result.log_sum))
    same = np.array_equal(token, truth.token) and np.array_equal(logit, truth.logit)
    return Outcome(same, _distance(log_sum, truth.log_sum))


def _distance(result: np.ndarray, truth: np.ndarray) -> float:
    with np.errstate(invalid="ignore"):
        return float(np.max(np.where(result == truth, 0.0, np.abs(result - truth)), initial=0.0))


def dense(d: Draw) -> Outcome:
    result = d.operations.best_tokens(
        d.on(d.hidden, True), d.on(d.weight, True), d.on(d.bias), d.k, **d.blocks
    )  # fmt: skip
    return compare(result, reference.best(d.hidden, d.weight, d.bias, d.k))


def nearest(d: Draw) -> Outcome:
    """Cluster choice: the best tokens by C h - |C|^2 / 2 are the nearest centroids."""
    k, bias = min(int(d.draw.choice([1, 3, 5])), d.vocab), -(d.weight**2).sum(1) / 2
    result = d.operations.best_tokens(d.on(d.hidden, True), d.on(d.weight, True), d.on(bias), k, **d.blocks)
    return Outcome(np.array_equal(result.token.cpu().numpy(), reference.nearest(d.hidden, d.weight, k)), 0.0)


def union(d: Draw) -> Outcome:
    """Mask, compaction, and the gathered matmul of what they list."""
    clusters = int(d.draw.integers(1, 9))
    token, start = d.sets(clusters)
    cluster = d.draw.integers(0, clusters, d.rows).astype(np.int32)
    largest = int(np.diff(start).max())
    listed = d.operations.union_of_sets(d.on(cluster), d.on(token), d.on(start), max(largest, 1), d.vocab)
    truth = reference.union(cluster, token, start)
    if not np.array_equal(listed.index[: int(listed.count)].cpu().numpy(), truth):
        return Outcome(False, 0.0)
    tensors = d.on(d.hidden, True), d.on(d.weight, True), d.on(d.bias)
    result = d.operations.best_tokens(*tensors, d.k, tokens=listed, **d.blocks)
    return compare(result, reference.best(d.hidden, d.weight, d.bias, d.k, truth))


def attention(d: Draw) -> Outcome:
    """Rows that share cells of a pool, of lengths that differ, with and without a bias by distance."""
    heads, width = int(d.draw.integers(1, 4)), int(d.draw.integers(1, 40))
    cells, lines, most = int(d.draw.integers(1, 60)), int(d.draw.integers(1, 9)), int(d.draw.integers(1, 50))
    rows = min(d.rows, 40)
    query = d.values(rows, heads * width)
    pool = d.values(cells, 2 * heads * width)
    table = d.draw.integers(0, cells, (lines, most)).astype(np.int32)
    line, length = (d.draw.integers(low, high, rows).astype(np.int32) for low, high in ((0, lines), (1, most + 1)))
    bias = d.values(heads, int(d.draw.integers(1, 20))) if d.draw.random() < 0.5 else None
    result = d.operations.attend_cells(
        d.on(query, True), d.on(pool, True), d.on(table), d.on(line), d.on(length), heads, 0.25,
        None if bias is None else d.on(bias), int(length.max()),
    )  # fmt: skip
    keys, values = np.moveaxis(pool.reshape(cells, 2, heads, width), 1, 0)
    error = 0.0
    for row in range(rows):
        own = table[line[row], : length[row]]
        far = length[row] - 1 - np.arange(length[row])
        added = None if bias is None else bias[:, np.minimum(far, bias.shape[1] - 1)]
        truth = reference.attend(query[row].reshape(heads, width), keys[own], values[own], 0.25, added)
        error = max(error, float(np.abs(result[row].float().cpu().numpy() - truth.ravel()).max()))
    return Outcome(error <= ATTENTION[d.dtype], 0.0)


KINDS: dict[str, Callable[[Draw], Outcome]] = {
    "dense": dense,
    "nearest": nearest,
    "union": union,
    "attention": attention,
}


def plain() -> Operations:
    """The plain PyTorch form, on the CPU."""
    from sharpbeam.gpu import plain as form

    functions = form.best_tokens, form.union_of_sets, form.attend_cells
    return Operations(*functions, torch.device("cpu"), lambda draw: {})


def kernels(device: str) -> Operations:
    """The Triton kernels; on the CPU in the interpreter, which TRITON_INTERPRET=1 must have asked for."""
    from sharpbeam.gpu.kernels import attention as a
    from sharpbeam.gpu.kernels import scoring, union

    def blocks(draw: np.random.Generator) -> dict[str, Any]:
        if device == "cuda":  # where each form is compiled anew
            return [{}, {}, {"blocks": scoring.Blocks(16, 64, 32, 3)}, {"blocks": scoring.Blocks(32, 128, 16, 1)}][
                int(draw.integers(4))
            ]
        sizes = [int(draw.choice(sizes)) for sizes in ((16, 32), (32, 64, 128), (16, 32), (1, 2, 3))]
        return {"blocks": scoring.Blocks(*sizes)}

    functions = scoring.best_tokens, union.union_of_sets, a.attend_cells
    return Operations(*functions, torch.device(device), blocks)
