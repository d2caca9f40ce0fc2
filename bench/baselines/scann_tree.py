"""ScaNN (Guo et al., ICML 2020, "Accelerating Large-Scale Inference with Anisotropic Vector Quantization").

A tree's leaves hold the words as codes, whose errors are kept small along the words themselves; for a hidden vector the
best leaves are scored by codes, and the best of their words by their vectors. The bias is one more coordinate.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.baselines.candidates import CandidateLayer, check_layer, in_range
from bench.baselines.neighbors import folded, folded_vector
from bench.baselines.peers import peer
from sharpbeam.types import Floats, Ids

THRESHOLD = 0.2  # of the anisotropic loss, as in the library's examples


class ScannLayer(CandidateLayer):
    """Exact logits of the words that ScaNN finds to be best."""

    def __init__(self, weight: Floats, bias: Floats, searcher: Any, probed: int, kept: int) -> None:
        """`searcher` is one of ScaNN over the words with their biases as a last coordinate."""
        super().__init__(weight, bias)
        self._searcher, self._probed, self._kept = searcher, probed, kept

    @classmethod
    def build(
        cls,
        weight: Floats,
        bias: Floats,
        samples: Floats | None = None,
        *,
        leaves: int = 128,
        probed: int = 16,
        kept: int = 100,
        like: ScannLayer | None = None,
    ) -> ScannLayer:
        """Quantize the words of the output matrix [V, D] with bias [V]; samples are not used.

        Dials: `leaves` of the tree, 1 to V, and `probed` of them, 1 to `leaves`. `kept` words, 1 to V, get exact
        logits. With all leaves probed and `kept` = V it is the full softmax. `like` is one of the same layer and
        `leaves`, whose tree is used again.
        """
        check_layer(weight, bias)
        rows = folded(weight, bias)
        in_range("leaves", leaves, 1, len(rows))
        in_range("probed", probed, 1, leaves)
        in_range("kept", kept, 1, len(rows))
        if like is not None:
            return cls(weight, bias, like._searcher, probed, kept)
        builder = peer("scann").scann_ops_pybind.builder(rows, kept, "dot_product")
        tree = builder.tree(num_leaves=leaves, num_leaves_to_search=probed, training_sample_size=len(rows))
        searcher = tree.score_ah(2, anisotropic_quantization_threshold=THRESHOLD).build()
        return cls(weight, bias, searcher, probed, kept)

    def candidates(self, h: Floats) -> Ids:
        """The best words of the probed leaves by their codes, which may be fewer than `kept`."""
        ids, _ = self._searcher.search(folded_vector(h), self._kept, leaves_to_search=self._probed)
        return np.sort(ids).astype(np.int32)
