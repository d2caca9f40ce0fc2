"""How often a screen gives the exact layer's top k, and the test that sends doubtful rows to the exact layer.

Of all that was tried on a translation model (margin between clusters, probability of the best, missed mass, misses of
the cluster, distance, k-th best logit, and logistic regressions over all of them), two numbers predict misses as well
as everything together: the k-th best logit found, and the distance to the cluster's center. A word outside the set
scores the higher the farther the row is from the vectors that the set was made from; so the test asks whether the
k-th best, less slope * distance, is at least offset.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from quickbeam.projections.screened import ScreenedProjection
from quickbeam.train.screen.bound import design_effect, lower_bound
from quickbeam.train.screen.collect import Records
from quickbeam.train.screen.kmeans import assign
from quickbeam.train.screen.sets import membership
from quickbeam.types import Doubt, Floats, Ids, Screen

SLOPES = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # tried, in units of the spread of logits over that of distances
NEVER = float(np.finfo(np.float32).max)  # an offset that sends every row back; its negative sends none
BLOCK = 4096  # rows at a time


@dataclass(frozen=True)
class Output:
    """The output layer that a screen is fitted for."""

    weight: Floats  # [V, D]
    bias: Floats  # [V]


@dataclass(frozen=True)
class Measure:
    """What a screen does on the steps of some sentences. `fidelity` and `bound` count rows that fall back as right."""

    steps: int
    sentences: int
    precision_1: float  # of the screen alone, share of rows whose best word is in the set
    precision_k: float  # of the screen alone, share of the k best words that are in the set
    agreement: float  # of the screen alone, share of rows whose k best words all are
    fallback: float  # share of rows that go to the exact layer
    fidelity: float  # share of rows with the exact top k, those that fall back included
    bound: float  # lower confidence bound of `fidelity`
    average_set: float  # words in the set of a row
    cost: float  # bytes that a row reads: clusters, set, and the whole output layer where it falls back


@dataclass(frozen=True)
class _Rows:
    """What the test sees of each row, and whether the screen alone misses."""

    hits: NDArray[np.bool_]  # [n, k]
    size: NDArray[np.int64]  # [n] words in the set
    kth: Floats  # [n] k-th best logit in the set, -inf where there is none
    far: Floats  # [n] distance to the center

    @property
    def miss(self) -> NDArray[np.bool_]:
        return np.asarray(~self.hits.all(axis=1))


def calibrate(
    screen: Screen, output: Output, records: Records, k: int, center: Floats, fidelity: float, confidence: float
) -> Screen:
    """`screen` with the test that makes the lower bound of its fidelity at least `fidelity` on `records`.

    Among the slopes the one is taken that ranks misses best (area under the curve). Then rows are sent back, the most
    doubtful first, until the bound is reached; where the records are too few for it, every row is.
    """
    rows = _look(replace(screen, doubt=Doubt(center, k, 0.0, 0.0)), output, records, k)
    miss, sentence = rows.miss, records["sentence"]
    finite = np.isfinite(rows.kth)
    unit = float(rows.kth[finite].std() / max(float(rows.far.std()), 1e-12)) if finite.any() else 0.0
    slope = max((s * unit for s in SLOPES), key=lambda s: _area(rows.kth - np.float32(s) * rows.far, miss))
    sure = rows.kth - np.float32(slope) * rows.far
    order = np.argsort(sure, kind="stable")
    misses = order[miss[order]]  # the most doubtful first; rows between two misses change nothing

    def reached(sent_back: int) -> bool:
        wrong = miss.copy()
        wrong[misses[:sent_back]] = False
        return _bound(wrong, miss, sentence, confidence) >= fidelity

    least = bisect_left(range(len(misses) + 1), True, key=reached)
    if least > len(misses):
        return replace(screen, doubt=Doubt(center, k, slope, NEVER))
    offset = float(np.nextafter(sure[misses[least - 1]], np.float32(np.inf))) if least else -NEVER
    return replace(screen, doubt=Doubt(center, k, slope, max(offset, -NEVER)))


def measure(screen: Screen, output: Output, records: Records, k: int, confidence: float) -> Measure:
    """What `screen`, with its test if it has one, does on `records`."""
    rows, doubt, n = _look(screen, output, records, k), screen.doubt, len(records)
    doubtful = np.zeros(n, np.bool_)
    if doubt is not None:
        doubtful = rows.kth - np.float32(doubt.slope) * rows.far < np.float32(doubt.offset)
    miss = rows.miss
    wrong = miss & ~doubtful
    fallback = float(doubtful.mean())
    vocab, dim = output.weight.shape
    return Measure(
        steps=n,
        sentences=len(np.unique(records["sentence"])),
        precision_1=float(rows.hits[:, 0].mean()),
        precision_k=float(rows.hits.mean()),
        agreement=float(1 - miss.mean()),
        fallback=fallback,
        fidelity=float(1 - wrong.mean()),
        bound=_bound(wrong, miss, records["sentence"], confidence),
        average_set=float(rows.size.mean()),
        cost=4.0 * dim * (len(screen.weight) + float(rows.size.mean()) + fallback * vocab),
    )


def _bound(wrong: NDArray[np.bool_], miss: NDArray[np.bool_], sentence: Ids, confidence: float) -> float:
    """Lower bound of the share of rows that are not `wrong` [n], those of the screen's misses that are not sent back.

    A few misses say little of how they cluster in sentences, so the design effect of all of them counts too.
    """
    effective = len(wrong) / max(design_effect(miss, sentence), design_effect(wrong, sentence))
    return lower_bound((1 - float(wrong.mean())) * effective, effective, confidence)


def _look(screen: Screen, output: Output, records: Records, k: int) -> _Rows:
    hidden = np.ascontiguousarray(records["hidden"])
    label = assign(hidden, screen.weight, screen.bias)
    hits = membership(screen, label, records["token"][:, :k], len(output.bias))
    size = np.diff(screen.start)[label].astype(np.int64)
    kth, far = np.zeros(len(hidden), np.float32), np.zeros(len(hidden), np.float32)
    if screen.doubt is not None:
        projection = ScreenedProjection.build(output.weight, output.bias, replace(screen, doubt=None))
        for first in range(0, len(hidden), BLOCK):
            block = slice(first, first + BLOCK)
            top = projection.topk(hidden[block], k)
            word = top.token[:, -1]
            logit = np.einsum("nd,nd->n", hidden[block], output.weight[word]) + output.bias[word]
            kth[block] = np.where(top.log_prob[:, -1] > -np.inf, logit, -np.inf)
            far[block] = np.linalg.norm(hidden[block] - screen.doubt.center[label[block]], axis=1)
    return _Rows(hits, size, kth, far)


def _area(sure: Floats, miss: NDArray[np.bool_]) -> float:
    """The chance that a miss is less sure than a hit: the area under the curve of the test."""
    rank = np.empty(len(sure))
    rank[np.argsort(sure, kind="stable")] = np.arange(len(sure))
    misses = int(miss.sum())
    if misses in (0, len(sure)):
        return 0.5
    return 1.0 - float(rank[miss].mean() - (misses - 1) / 2) / (len(sure) - misses)
