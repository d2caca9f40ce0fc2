"""Coverage penalty (GNMT: Wu et al. 2016, section 7): answers that left a part of the source without attention lose.

score = log_prob / length ** length_penalty + beta * sum over source words of log(min(attention they got in all, 1))

All finished hypotheses that the search has kept, beam_size of them by default, are ranked anew, as in GNMT, OpenNMT and
CTranslate2; the search itself, and when it stops, do not change. We leave out the end of the source and the tags of
languages, which are no words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sharpbeam.types import Floats, Hypothesis

LEAST = float(np.finfo(np.float32).tiny)  # of what a word got in all, so that no score is infinite


def coverage(attention: Floats) -> float:
    """Sum over the words of log(min(attention, 1)), 0 or less, for [T, S] whose last column is no word's."""
    total = attention[:, :-1].sum(axis=0, dtype=np.float64)
    return float(np.log(np.clip(total, LEAST, 1.0)).sum())


def with_coverage(
    found: Iterator[tuple[int, list[Hypothesis]]], beta: float, answers: int, keep: bool
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Yield the `answers` best of each (request index, hypotheses with attention), their scores with the penalty.

    Equal scores stay in their order. `keep` says whether the answers keep their attention.
    """
    for index, hypotheses in found:
        scored = []
        for hypothesis in hypotheses:
            assert hypothesis.attention is not None
            score = hypothesis.score + beta * coverage(hypothesis.attention)
            scored.append(replace(hypothesis, score=score, attention=hypothesis.attention if keep else None))
        scored.sort(key=lambda hypothesis: -hypothesis.score)
        yield index, scored[:answers]
