"""How often a screen gives what the exact layer gives, and the fallback test that its uncertain rows fail.

A row is right where the screen has all tokens that matter among its k best, and its log Z within a tolerance. Those
that matter are the ones that the search would have looked at (see collect.py); where a text is read, all k. log Z
counts because beam search compares tokens of different rows: an error of a normalizer changes which of two near-equal
hypotheses wins. A step is all rows that a search runs together for one request, and it is right where all of them are:
then the search does what it would have done.

An error of the residual mass counts in log Z by the share of the tokens outside the set, so that share predicts the
errors of log Z. Of all predictors of missing tokens that were tried three say as much as everything together: the
lowest logit that matters, the residual mass, and the distance to the cluster's center. Their weights are searched.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from sharpbeam.fit.bound import design_effect, lower_bound
from sharpbeam.fit.collect import OutputMatrix, Records, Steps
from sharpbeam.fit.screen.clusters import membership
from sharpbeam.fit.screen.residual_mass import NEVER
from sharpbeam.options.fit import ScreenOptions
from sharpbeam.output_layers.screen import FallbackFeatures, FallbackTest, Screen
from sharpbeam.types import Floats, Ids

MARGINS = (2.0, 3.0, 4.0, 6.0, np.inf)  # tried
MASS_WEIGHTS = (0.0, 0.5, 1.0)
# Times the spread of logits over that of distances.
DISTANCE_WEIGHTS = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
LEFT = (0.0, 0.25, 0.5, 0.75)  # of the steps that may be wrong, those that may be so by their normalizers: tried


@dataclass(frozen=True)
class Measure:
    """Figures of a screen on the rows of some sentences. `fidelity` and `bound` count rows that fall back as right."""

    rows: int
    steps: int
    sentences: int
    precision_1: float  # of the screen alone, share of rows whose best token is in the set
    precision_k: float  # of the screen alone, share of the k best tokens that are in the set
    agreement: float  # of the screen alone, share of rows whose k best tokens all are
    sufficient: float  # of the screen alone, share of rows that have all tokens that matter
    within: float  # of the screen alone, share of rows whose log Z is within the tolerance
    fallback: float  # share of rows that go to the exact layer
    fidelity: float  # share of steps with all tokens that matter and every log Z within the tolerance
    bound: float  # lower confidence bound of `fidelity`
    average_set: float  # tokens in the set of a row
    normalizer_error: float  # mean |log Z - exact| of the rows that do not fall back
    cost: float  # bytes that a row reads: clusters, set, and all tokens where it falls back; int8


def matters(records: Records, k: int) -> NDArray[np.bool_]:
    """Mask [n, k] of the k best tokens of each row that matter; the best does always."""
    mask = np.asarray(records["log_prob"][:, :k] >= records["floor"][:, None])
    mask[:, 0] = True
    return mask


class View:
    """Rows as a screen sees them, and what it gets wrong there without a fallback."""

    def __init__(
        self, screen: Screen, output: OutputMatrix, steps: Steps, options: ScreenOptions, center: Floats | None = None
    ) -> None:
        """Run `screen`, which has a residual mass, on `steps`: right as `top_k` and `tolerance` of `options` say.

        `center` [C, D] are the clusters' centers, for a test that is still to be calibrated.
        """
        if screen.fallback is None or center is not None:  # with this test no row falls back
            center = np.zeros_like(screen.weight) if center is None else center
            screen = replace(screen, fallback=FallbackTest(center, options.top_k, 0.0, 0.0, 0.0, -NEVER))
        assert screen.fallback is not None
        self.screen, self.test = screen, screen.fallback
        self.vocab, self.dim = output.weight.shape
        self.features = FallbackFeatures(output.weight, output.bias, screen, steps.hidden)
        top = steps.records["token"][:, : options.top_k]
        self.hits = membership(screen, self.features.cluster, top, self.vocab)  # [n, k]
        # [n] a token that matters is missing
        self.miss = np.asarray((~self.hits & matters(steps.records, options.top_k)).any(axis=1))
        self.error = np.abs(self.features.log_total - steps.total)  # [n] of log Z
        self.off = np.asarray(self.error > options.tolerance)  # [n]
        sentence, number = steps.records["sentence"], steps.records["step"]
        begins = np.r_[True, (sentence[1:] != sentence[:-1]) | (number[1:] != number[:-1])]
        self.step, self.sentence = np.cumsum(begins) - 1, sentence[begins]  # [n] step of each row, [steps]

    def wrong_steps(self, wrong: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Mask [steps] of the steps that have a `wrong` [n] row."""
        return np.bincount(self.step, wrong, len(self.sentence)) > 0

    def calibrate(self, fidelity: float, confidence: float) -> None:
        """Give the screen the fallback test with which the lower bound of the fidelity is at least `fidelity`.

        The test of normalizers is set so that some of the steps that may be wrong are so by them, for each of `LEFT`,
        and then the one of tokens. Of all weights of its features those are taken with which the fewest rows fall back:
        the most uncertain first, until the bound is reached. With too few rows to reach it, every row falls back.
        """
        allowed = int((1 - fidelity) * len(self.sentence))
        best, least = replace(self.test, threshold=NEVER), len(self.miss) + 1
        for max_log_share in sorted({self._max_log_share(int(share * allowed)) for share in LEFT}):
            test = self._token_test(replace(best, max_log_share=max_log_share), allowed, fidelity, confidence)
            falling_back = int(self.features.uncertain(test).sum())
            if falling_back < least:
                best, least = test, falling_back
        self.screen, self.test = replace(self.screen, fallback=best), best

    def measure(self, confidence: float) -> Measure:
        """The figures with the fallback test, if there is one."""
        uncertain = self.features.uncertain(self.test)
        tight = self.features.log_share <= np.float32(self.test.max_log_share)
        wrong = self.wrong_steps((self.miss | self.off) & ~uncertain)
        misses = self.wrong_steps(self.miss | (self.off & tight))
        size = float(np.diff(self.screen.start)[self.features.cluster].mean())
        error = self.error[~uncertain]
        fallback = float(uncertain.mean())
        return Measure(
            rows=len(self.miss),
            steps=len(wrong),
            sentences=len(np.unique(self.sentence)),
            precision_1=float(self.hits[:, 0].mean()),
            precision_k=float(self.hits.mean()),
            agreement=float(self.hits.all(axis=1).mean()),
            sufficient=float(1 - self.miss.mean()),
            within=float(1 - self.off.mean()),
            fallback=fallback,
            fidelity=float(1 - wrong.mean()),
            bound=_bound(wrong, misses, self.sentence, confidence),
            average_set=size,
            normalizer_error=float(error.mean()) if len(error) else 0.0,
            cost=self.dim * (len(self.screen.weight) + size + fallback * self.vocab),
        )

    def _max_log_share(self, misses: int) -> float:
        """The largest share outside, as its log: at most `misses` rows whose log Z is off do not fall back with it."""
        outside = np.sort(self.features.log_share[self.off])
        return float(np.nextafter(outside[misses], np.float32(-np.inf))) if misses < len(outside) else float("inf")

    def _token_test(self, test: FallbackTest, allowed: int, fidelity: float, confidence: float) -> FallbackTest:
        """`test`, whose normalizer test is set, with weights and threshold for what is still wrong then."""
        features = self.features
        tight = features.log_share <= np.float32(test.max_log_share)
        wrong = (self.miss | self.off) & tight
        unit = float(np.std(features.best)) / max(float(np.std(features.distance)), 1e-12)
        choices = [(margin, mass, far * unit) for margin, mass, far in product(MARGINS, MASS_WEIGHTS, DISTANCE_WEIGHTS)]
        falling_back = [_falling_back(features.certainty(*choice), wrong, tight, allowed) for choice in choices]
        weights = choices[int(np.argmin(falling_back))]
        sure = features.certainty(*weights)
        order = np.argsort(sure, kind="stable")
        misses = order[wrong[order]]  # the most uncertain first; rows between two misses change nothing
        all_wrong = self.wrong_steps(self.miss | wrong)

        def reached(number: int) -> bool:
            still = wrong.copy()
            still[misses[:number]] = False
            return _bound(self.wrong_steps(still), all_wrong, self.sentence, confidence) >= fidelity

        least = bisect_left(range(len(misses) + 1), True, key=reached)
        threshold = NEVER
        if least <= len(misses):
            threshold = float(np.nextafter(sure[misses[least - 1]], np.float32(np.inf))) if least else -NEVER
        margin, mass, distance = weights
        threshold = max(threshold, -NEVER)
        return replace(test, margin=margin, mass_weight=mass, distance_weight=distance, threshold=threshold)


def _bound(wrong: NDArray[np.bool_], misses: NDArray[np.bool_], sentence: Ids, confidence: float) -> float:
    """Lower bound of the share of steps that are not `wrong` [n], those with `misses` of the screen that stay.

    A few misses say little of how they cluster in sentences, so the design effect of all of them counts too: all tokens
    that are missing, and the normalizers that are off where their own test keeps the row.
    """
    effective = len(wrong) / max(design_effect(misses, sentence), design_effect(wrong, sentence))
    return lower_bound((1 - float(wrong.mean())) * effective, effective, confidence)


def _falling_back(sure: Floats, wrong: NDArray[np.bool_], tight: NDArray[np.bool_], allowed: int) -> int:
    """Number of `tight` rows at least as uncertain as the most uncertain wrong ones, of which `allowed` may stay."""
    missing = sure[wrong]
    if len(missing) <= allowed:
        return 0
    bar = np.partition(missing, len(missing) - allowed - 1)[len(missing) - allowed - 1]
    return int(((sure <= bar) & tight).sum())
