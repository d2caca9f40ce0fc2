"""Faiss IVF: inner products in an inverted file (Jégou et al., PAMI 2011; the library is Johnson et al., 2019).

k-means puts the words into lists; for a hidden vector the lists with the best centroids are searched. The bias is one
more coordinate.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.baselines.candidates import CandidateLayer, check_layer, in_range
from bench.baselines.neighbors import folded, folded_vector
from bench.baselines.peers import peer
from sharpbeam.types import Floats, Ids


class FaissIvfLayer(CandidateLayer):
    """Exact logits of the words that Faiss finds to be best."""

    def __init__(self, weight: Floats, bias: Floats, index: Any, probed: int, kept: int) -> None:
        """`index` is one of Faiss over the words with their biases as a last coordinate."""
        super().__init__(weight, bias)
        self._index, self._kept = index, kept
        self._parameters = peer("faiss").SearchParametersIVF(nprobe=probed)

    @classmethod
    def build(
        cls,
        weight: Floats,
        bias: Floats,
        samples: Floats | None = None,
        *,
        lists: int = 128,
        probed: int = 16,
        kept: int = 32,
        like: FaissIvfLayer | None = None,
    ) -> FaissIvfLayer:
        """Cluster the words of the output matrix [V, D] with bias [V]; samples are not used.

        Dials: `lists` (nlist), 1 to V, and `probed` of them (nprobe), 1 to `lists`. `kept` words, 1 to V, get exact
        logits. With all lists probed, the `kept` best words are those of the full softmax. `like` is one of the same
        layer and `lists`, whose index is used again.
        """
        check_layer(weight, bias)
        rows = folded(weight, bias)
        in_range("lists", lists, 1, len(rows))
        in_range("probed", probed, 1, lists)
        in_range("kept", kept, 1, len(rows))
        if like is not None:
            return cls(weight, bias, like._index, probed, kept)
        faiss = peer("faiss")
        quantizer = faiss.IndexFlatIP(rows.shape[1])
        index = faiss.IndexIVFFlat(quantizer, rows.shape[1], lists, faiss.METRIC_INNER_PRODUCT)
        index.cp.min_points_per_centroid = 1  # few words are no mistake here
        index.train(rows)
        index.add(rows)
        return cls(weight, bias, index, probed, kept)

    def candidates(self, h: Floats) -> Ids:
        """The best words of the probed lists, which may hold fewer than `kept`."""
        _, ids = self._index.search(folded_vector(h)[None], self._kept, params=self._parameters)
        return np.sort(ids[ids >= 0]).astype(np.int32)
