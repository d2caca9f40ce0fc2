"""FGD (Zhang et al., NeurIPS 2018, "Navigating with Graph Representations for Fast and Scalable Decoding").

The words are points whose nearest neighbors are the best words (`neighbors.py`), in a graph of the small-world kind
(HNSW; Malkov & Yashunin 2018, from hnswlib), which is walked from neighbor to neighbor towards the hidden vector.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.baselines.candidates import CandidateLayer, check_layer, in_range
from bench.baselines.neighbors import vector_as_point, words_as_points
from bench.baselines.peers import peer
from sharpbeam.types import Floats, Ids


class FgdLayer(CandidateLayer):
    """Exact logits of the nearest neighbors that the walk finds."""

    def __init__(self, weight: Floats, bias: Floats, index: Any, searched: int, kept: int) -> None:
        """`index` is a graph of hnswlib over the words as points."""
        super().__init__(weight, bias)
        self._index, self._searched, self._kept = index, searched, kept

    @classmethod
    def build(
        cls,
        weight: Floats,
        bias: Floats,
        samples: Floats | None = None,
        *,
        links: int = 16,
        built: int = 200,
        searched: int = 64,
        kept: int = 32,
        seed: int = 1,
        like: FgdLayer | None = None,
    ) -> FgdLayer:
        """Make the graph for the output matrix [V, D] with bias [V]; samples are not used.

        Dials: `links` of a word (M of HNSW, 2 to 100), `built`, the width of the search that finds them, and
        `searched`, the width of the search for a hidden vector (ef), `kept` to V. `kept` neighbors, 1 to V, get exact
        logits. With `searched` = `kept` = V it is the full softmax, as long as the graph hangs together. `like` is one
        of the same layer, `links` and `built`, whose graph is used again.
        """
        check_layer(weight, bias)
        in_range("links", links, 2, 100)
        in_range("built", built, 1, 10_000)
        in_range("kept", kept, 1, len(weight))
        in_range("searched", searched, kept, len(weight))
        if like is not None:
            return cls(weight, bias, like._index, searched, kept)
        points = words_as_points(weight, bias)
        index = peer("hnswlib").Index(space="l2", dim=points.shape[1])
        index.init_index(max_elements=len(points), M=links, ef_construction=built, random_seed=seed)
        index.add_items(points, np.arange(len(points)), num_threads=1)  # with more, the graph differs from run to run
        return cls(weight, bias, index, searched, kept)

    def candidates(self, h: Floats) -> Ids:
        """The nearest neighbors that were found."""
        self._index.set_ef(self._searched)  # the index may be another's too
        ids, _ = self._index.knn_query(vector_as_point(h), k=self._kept, num_threads=1)
        return np.sort(ids[0]).astype(np.int32)
