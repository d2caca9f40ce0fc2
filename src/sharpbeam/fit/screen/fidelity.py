"""How often a screen gives what the exact layer gives, and the test that sends doubtful rows to it.

What must be given: of a row's k best words those that matter, which are those that a search would have looked at (see
collect.py); of a text that is given, all k. And log Z, within a tolerance: a beam search compares words of different
rows, so that an error of a normaliser changes which of two near-equal hypotheses wins. A step is all rows that a search
runs together for one request, and it is right where all of them are: then the search does what it would have done.

What the tail gets wrong counts in log Z by the share of the words outside, so that share predicts the errors of log Z.
Of all that was tried on a translation model to predict words that are missing (margin between clusters, probability of
the best, missed mass, misses of the cluster, distance, k-th best logit, and logistic regressions over all of them),
three numbers say as much as everything together: the lowest logit that matters, what the words outside weigh, and the
distance to the cluster's center. How much each counts differs between models, so it is searched.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from sharpbeam.fit.screen.bound import design_effect, lower_bound
from sharpbeam.fit.screen.collect import Records
from sharpbeam.fit.screen.output import NEVER, Output, totals
from sharpbeam.fit.screen.sets import membership
from sharpbeam.output_layers.screen import Signs
from sharpbeam.types import FallbackTest, Floats, Ids, Screen

MARGINS = (2.0, 3.0, 4.0, 6.0, np.inf)  # tried
BY_TAIL = (0.0, 0.5, 1.0)
BY_FAR = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # in units of the spread of logits over that of distances
LEFT = (0.0, 0.25, 0.5, 0.75)  # of the steps that may be wrong, those that may be so by their normalisers: tried


@dataclass(frozen=True)
class Demand:
    """What makes a row right."""

    k: int  # of its k best words, all that matter
    tolerance: float  # and log Z within so much


@dataclass(frozen=True)
class Measure:
    """What a screen does on the rows of some sentences. `fidelity` and `bound` count rows that fall back as right."""

    rows: int
    steps: int
    sentences: int
    precision_1: float  # of the screen alone, share of rows whose best word is in the set
    precision_k: float  # of the screen alone, share of the k best words that are in the set
    agreement: float  # of the screen alone, share of rows whose k best words all are
    sufficient: float  # of the screen alone, share of rows that have all words that matter
    within: float  # of the screen alone, share of rows whose log Z is within the tolerance
    fallback: float  # share of rows that go to the exact layer
    fidelity: float  # share of steps with all words that matter and every log Z within the tolerance
    bound: float  # lower confidence bound of `fidelity`
    average_set: float  # words in the set of a row
    normaliser_error: float  # mean |log Z - exact| of the rows that do not fall back
    normaliser_error_99: float  # its 99th percentile
    cost: float  # bytes that a row reads: clusters, set, and all words where it falls back; int8


def wanted(records: Records, k: int) -> NDArray[np.bool_]:
    """Which of the k best words [n, k] of each row matter; the best does always."""
    mask = np.asarray(records["log_prob"][:, :k] >= records["floor"][:, None])
    mask[:, 0] = True
    return mask


@dataclass(frozen=True)
class _Rows:
    """What the test sees of each row, and what the screen alone misses."""

    signs: Signs
    hits: NDArray[np.bool_]  # [n, k]
    miss: NDArray[np.bool_]  # [n] a word that matters is missing
    error: Floats  # [n] of log Z, not negative
    off: NDArray[np.bool_]  # [n] beyond the tolerance
    step: NDArray[np.int64]  # [n] number of the step among all
    sentence: Ids  # [steps]

    def wrong_steps(self, wrong: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which steps [steps] have a row that is `wrong` [n]."""
        return np.bincount(self.step, wrong, len(self.sentence)) > 0


def calibrate(
    screen: Screen, output: Output, records: Records, demand: Demand, center: Floats, fidelity: float, confidence: float
) -> Screen:
    """`screen` with the test that makes the lower bound of its fidelity at least `fidelity` on `records`.

    The test of normalisers is set so that some of the steps that may be wrong are so by them, for each of `LEFT`, and
    then the one of words. Of all ways to weigh its signs the one is taken that sends the fewest rows back: the most
    doubtful first, until the bound is reached. Where the records are too few for it, every row is sent back.
    """
    rows = _look(replace(screen, doubt=FallbackTest(center, demand.k, np.inf, 0.0, 0.0, 0.0)), output, records, demand)
    allowed = int((1 - fidelity) * len(rows.sentence))
    best, least = FallbackTest(center, demand.k, np.inf, 0.0, 0.0, NEVER), len(records) + 1
    for loosest in sorted({_loosest(rows, int(share * allowed)) for share in LEFT}):
        test = _word_test(rows, replace(best, loosest=loosest), allowed, fidelity, confidence)
        sent = int(rows.signs.doubtful(test).sum())
        if sent < least:
            best, least = test, sent
    return replace(screen, doubt=best)


def _loosest(rows: _Rows, left: int) -> float:
    """The largest share outside, as its log, with which at most `left` rows whose log Z is off are not sent back."""
    outside = np.sort(rows.signs.outside[rows.off])
    return float(np.nextafter(outside[left], np.float32(-np.inf))) if left < len(outside) else float("inf")


def _word_test(rows: _Rows, test: FallbackTest, allowed: int, fidelity: float, confidence: float) -> FallbackTest:
    """`test`, which knows the normalisers it sends back, with the weights and the offset for what is wrong then."""
    signs = rows.signs
    kept = signs.outside <= np.float32(test.loosest)
    wrong = (rows.miss | rows.off) & kept
    unit = float(np.std(signs.best)) / max(float(np.std(signs.far)), 1e-12)
    choices = [(margin, tail, far * unit) for margin, tail, far in product(MARGINS, BY_TAIL, BY_FAR)]
    margin, by_tail, by_far = min(choices, key=lambda choice: _sent_back(signs.sure(*choice), wrong, kept, allowed))
    sure = signs.sure(margin, by_tail, by_far)
    order = np.argsort(sure, kind="stable")
    misses = order[wrong[order]]  # the most doubtful first; rows between two misses change nothing
    all_wrong = rows.wrong_steps(rows.miss | wrong)

    def reached(sent_back: int) -> bool:
        still = wrong.copy()
        still[misses[:sent_back]] = False
        return _bound(rows.wrong_steps(still), all_wrong, rows.sentence, confidence) >= fidelity

    least = bisect_left(range(len(misses) + 1), True, key=reached)
    offset = NEVER
    if least <= len(misses):
        offset = float(np.nextafter(sure[misses[least - 1]], np.float32(np.inf))) if least else -NEVER
    return replace(test, margin=margin, by_tail=by_tail, by_far=by_far, offset=max(offset, -NEVER))


def measure(screen: Screen, output: Output, records: Records, demand: Demand, confidence: float) -> Measure:
    """What `screen`, which has a tail, does on `records`, with its test if it has one."""
    test = screen.doubt or FallbackTest(np.zeros_like(screen.weight), demand.k, np.inf, 0.0, 0.0, -NEVER)
    rows = _look(replace(screen, doubt=test), output, records, demand)
    doubtful = np.zeros(len(records), np.bool_) if screen.doubt is None else rows.signs.doubtful(test)
    lacking = rows.miss | rows.off
    tight = rows.signs.outside <= np.float32(test.loosest)
    wrong, misses = rows.wrong_steps(lacking & ~doubtful), rows.wrong_steps(rows.miss | (rows.off & tight))
    size = np.diff(screen.start)[rows.signs.cluster]
    error = rows.error[~doubtful]
    vocab, dim = output.weight.shape
    fallback = float(doubtful.mean())
    return Measure(
        rows=len(records),
        steps=len(wrong),
        sentences=len(np.unique(rows.sentence)),
        precision_1=float(rows.hits[:, 0].mean()),
        precision_k=float(rows.hits.mean()),
        agreement=float(rows.hits.all(axis=1).mean()),
        sufficient=float(1 - rows.miss.mean()),
        within=float(1 - rows.off.mean()),
        fallback=fallback,
        fidelity=float(1 - wrong.mean()),
        bound=_bound(wrong, misses, rows.sentence, confidence),
        average_set=float(size.mean()),
        normaliser_error=float(error.mean()) if len(error) else 0.0,
        normaliser_error_99=float(np.quantile(error, 0.99)) if len(error) else 0.0,
        cost=dim * (len(screen.weight) + float(size.mean()) + fallback * vocab),
    )


def _bound(wrong: NDArray[np.bool_], misses: NDArray[np.bool_], sentence: Ids, confidence: float) -> float:
    """Lower bound of the share of steps that are not `wrong` [n], those with `misses` of the screen that stay.

    A few misses say little of how they cluster in sentences, so the design effect of all of them counts too: all words
    that are missing, and the normalisers that are off where their own test keeps the row.
    """
    effective = len(wrong) / max(design_effect(misses, sentence), design_effect(wrong, sentence))
    return lower_bound((1 - float(wrong.mean())) * effective, effective, confidence)


def _look(screen: Screen, output: Output, records: Records, demand: Demand) -> _Rows:
    hidden = np.ascontiguousarray(records["hidden"])
    signs = Signs(output.weight, output.bias, screen, hidden)
    hits = membership(screen, signs.cluster, records["token"][:, : demand.k], len(output.bias))
    sentence, number = records["sentence"], records["step"]
    begins = np.r_[True, (sentence[1:] != sentence[:-1]) | (number[1:] != number[:-1])]
    miss = np.asarray((~hits & wanted(records, demand.k)).any(axis=1))
    error = np.abs(signs.total - totals(output, records))
    return _Rows(signs, hits, miss, error, error > demand.tolerance, np.cumsum(begins) - 1, sentence[begins])


def _sent_back(sure: Floats, wrong: NDArray[np.bool_], kept: NDArray[np.bool_], allowed: int) -> int:
    """How many rows that are `kept` are at least as doubtful as the most doubtful wrong ones; `allowed` may stay."""
    missing = np.sort(sure[wrong])
    if len(missing) <= allowed:
        return 0
    return int(((sure <= missing[len(missing) - allowed - 1]) & kept).sum())
