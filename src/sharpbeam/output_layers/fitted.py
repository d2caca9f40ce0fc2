"""Screens and shortlists: what is fitted for a model's output layer.

`fit` makes them, `storage` keeps them in the model folder, and the layers of this package are built from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sharpbeam.types import Floats, Ids, Per


@dataclass(frozen=True, slots=True)
class ResidualMass:
    """The mass of the tokens outside the set of a cluster: the sum of exp(weight . h + bias) over M components.

    Each component stands for tokens whose logits move together. It completes the normaliser, so that the log
    probabilities of a screen and of the exact layer are on one scale.
    """

    weight: Floats  # [C, M, D]
    bias: Floats  # [C, M]


@dataclass(frozen=True, slots=True)
class FallbackTest:
    """The test that finds the rows that a screen is uncertain of, which fall back to a layer that scores all tokens.

    A row is certain where its set is sure to hold all tokens that matter (margin test), and its normaliser is sure to
    be right (mass test):

        max(k-th best logit, best logit - margin) - mass_weight * log_mass - distance_weight * distance >= threshold
        log_mass - log Z <= max_log_share

    `log_mass` is the log of the residual mass, `distance` that of the hidden vector to the center of its cluster:
    tokens outside may score higher the farther a row is from those that the set was made from. An error of the residual
    mass counts in log Z by the share of the tokens outside.
    """

    center: Floats  # [C, D] mean of the hidden vectors of each cluster
    k: int
    margin: float  # may be inf
    mass_weight: float
    distance_weight: float
    threshold: float
    max_log_share: float = float("inf")


@dataclass(frozen=True, slots=True)
class Screen:
    """Clusters of hidden vectors, and the set of tokens that is scored for each (L2S, CVP).

    The cluster of a hidden vector h is the t with the largest weight[t] . h + bias[t], the lowest one on ties; for
    k-means `weight` is the centroids and `bias` is -|centroid|^2 / 2 (CVP section 2.3).
    """

    weight: Floats  # [C, D]
    bias: Floats  # [C]
    start: Ids  # [C + 1] the set of cluster t is token[start[t] : start[t + 1]], at least one token
    token: Ids  # [start[C]] ids, ascending within a set
    residual: ResidualMass | None = None  # None: tokens outside have probability zero
    fallback: FallbackTest | None = None  # None: the screen answers every row; needs a residual mass


@dataclass(frozen=True, slots=True)
class Screens:
    """The screens of a model: one for all requests, or one for each target language or direction (CVP section 2.2)."""

    per: Per
    by_scope: Mapping[str, Screen]  # as `Languages.scope` calls them; the one for all is ""


@dataclass(frozen=True, slots=True)
class Shortlist:
    """The likely translations of each source token, from word alignment (SHARP section 3)."""

    always: Ids  # [n] tokens of every set: special and frequent ones; ascending, each once, at least one
    start: Ids  # [V of the source + 1] the translations of token s are token[start[s] : start[s + 1]], perhaps none
    token: Ids  # [start[-1]] ids of target tokens, the most likely translation first

    def words(self, source: Ids) -> Ids:
        """The set of a source [S]: ascending ids, each once."""
        found = [self.token[self.start[word] : self.start[word + 1]] for word in set(source.tolist())]
        return np.unique(np.concatenate([self.always, *found]))


@dataclass(frozen=True, slots=True)
class Net:
    """The safety net of a shortlist: what the tokens outside a row's set may reach (csrc/output/net.h).

    A network of M units predicts the log of the mass outside, and the log of how far off that usually is. A row is sure
    of a bar, a logit, where it is `threshold` deviations above the prediction, and of its normaliser where the mass
    outside is at most `most_share` of all.
    """

    inner: Floats  # [M, D]
    bias: Floats  # [M]
    outer: Floats  # [2, M]
    direct: Floats  # [2, 3] by the best logit of the set, the log of the set's mass, and 1
    threshold: float
    most_share: float
