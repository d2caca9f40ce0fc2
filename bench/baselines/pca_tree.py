"""PCA-MIPS (Bachrach et al., RecSys 2014, "Speeding Up the Xbox Recommender System Using a Euclidean Transformation").

The words are points whose nearest neighbors are the best words (`neighbors.py`). Level j of a binary tree cuts each
set of points in two at its median along the j-th principal direction. A hidden vector looks into its own leaf, and into
those that it would have reached with one turn the other way (their section 4.2).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.baselines.candidates import CandidateLayer, check_layer, in_range
from bench.baselines.neighbors import principal, vector_as_point, words_as_points
from sharpbeam.types import Floats, Ids


class PcaTreeLayer(CandidateLayer):
    """Exact logits of the words of depth + 1 leaves of the tree."""

    def __init__(
        self,
        weight: Floats,
        bias: Floats,
        direction: Floats,
        center: Floats,
        median: Sequence[Floats],
        leaves: Sequence[Ids],
    ) -> None:
        """`direction` [L, D + 2] for L levels, `center` [L], `median` [2^j] for level j, words of the 2^L `leaves`."""
        super().__init__(weight, bias)
        self._direction, self._center, self._median, self._leaves = direction, center, median, leaves

    @classmethod
    def build(cls, weight: Floats, bias: Floats, samples: Floats | None = None, *, depth: int = 4) -> PcaTreeLayer:
        """Grow the tree for the output matrix [V, D] with bias [V]; samples are not used.

        Dial: `depth`, the levels of the tree, from 0, which is the full softmax, to log2(V), at most D: a level less
        makes the leaves twice as large.
        """
        check_layer(weight, bias)
        points = words_as_points(weight, bias)
        in_range("depth", depth, 0, min(len(weight).bit_length() - 1, weight.shape[1]))
        points /= np.sqrt(points[0] @ points[0]) or np.float32(1)
        mean = points.mean(axis=0)
        direction = principal(points - mean)[:depth]
        center = direction @ mean
        places = points @ direction.T - center
        leaves = [np.arange(len(points), dtype=np.int32)]
        median = []
        for level in range(depth):
            # The lower half of each set goes left, so that equal places do not pile up on one side.
            ordered = [words[np.argsort(places[words, level], kind="stable")] for words in leaves]
            median.append(np.array([places[words[len(words) // 2], level] for words in ordered]))
            leaves = [half for words in ordered for half in np.split(words, [len(words) // 2])]
        return cls(weight, bias, direction, center, median, leaves)

    def candidates(self, h: Floats) -> Ids:
        """The words of the vector's leaf and of those one branch away."""
        point = vector_as_point(h)
        # Its length changes no neighbor, but the branches it takes: like the words' points, it gets the length 1.
        place = self._direction @ (point / np.sqrt(point @ point)) - self._center
        reached = [self._leaf(place, turned) for turned in range(-1, len(place))]
        return np.sort(np.concatenate([self._leaves[leaf] for leaf in reached]))

    def _leaf(self, place: Floats, turned: int) -> int:
        """The leaf of a vector at `place` [L] that turns the other way on the level `turned`, if that is not -1."""
        node = 0
        for level, median in enumerate(self._median):
            right = bool(place[level] >= median[node])
            node = 2 * node + (right != (level == turned))
        return node
