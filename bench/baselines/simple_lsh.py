"""LSH-MIPS (Neyshabur & Srebro, ICML 2015, "On Symmetric and Asymmetric LSHs for Inner Product Search": simple LSH).

The words are points of one length, whose angle to the point of a hidden vector is the smaller the higher their logit
(`neighbors.py`). The signs of B random output layers are a code, which near points often share; each of T tables has
its own output layers, and the words whose code is that of the hidden vector in any table are the candidates.
"""

from __future__ import annotations

import numpy as np

from bench.baselines.candidates import CompiledLayer, check_layer, in_range
from bench.baselines.neighbors import vector_as_point, words_as_points
from bench.baselines.peers import compiled
from sharpbeam.types import Floats, Ids


class SimpleLshLayer(CompiledLayer):
    """Exact logits of the words that share a code with the hidden vector; there may be none."""

    def __init__(self, weight: Floats, bias: Floats, planes: Floats) -> None:
        """`planes` [T, B, D + 2] are the directions of the output_layers."""
        super().__init__(weight, bias)
        self._planes = planes
        self._powers = 1 << np.arange(planes.shape[1], dtype=np.int64)
        codes = self._codes(words_as_points(weight, bias))  # [V, T]
        order = np.argsort(codes, axis=0, kind="stable")
        buckets = np.arange(2 ** planes.shape[1] + 1)
        self._word = order.T.astype(np.int32)  # [T, V] in the order of their codes
        self._start = np.array([np.searchsorted(codes[order[:, t], t], buckets) for t in range(len(planes))])

    @classmethod
    def build(
        cls,
        weight: Floats,
        bias: Floats,
        samples: Floats | None = None,
        *,
        bits: int = 8,
        tables: int = 16,
        seed: int = 1,
    ) -> SimpleLshLayer:
        """Hash the words of the output matrix [V, D] with bias [V]; samples are not used.

        Dials: `bits` B of a code, 0 to 20: fewer find more words, and 0 is the full softmax; `tables` T, 1 to 1000.
        """
        check_layer(weight, bias)
        in_range("bits", bits, 0, 20)
        in_range("tables", tables, 1, 1000)
        planes = np.random.default_rng(seed).normal(size=(tables, bits, weight.shape[1] + 2))
        return cls(weight, bias, planes.astype(np.float32))

    def candidates(self, h: Floats) -> Ids:
        """The words in the vector's bucket of any table."""
        words: Ids = compiled(_united)(self._word, self._start, self._codes(vector_as_point(h)[None])[0])
        return words

    def _codes(self, points: Floats) -> Ids:
        """Codes [n, T] of points [n, D + 2]."""
        tables, bits, width = self._planes.shape
        signs = points @ self._planes.reshape(tables * bits, width).T > 0
        return (signs.reshape(len(points), tables, bits) @ self._powers).astype(np.int32)


def _united(word: Ids, start: Ids, codes: Ids) -> Ids:
    """The words, ascending, that a table has in the bucket of its code."""
    member = np.zeros(word.shape[1], np.bool_)
    for table in range(len(codes)):
        for place in range(start[table, codes[table]], start[table, codes[table] + 1]):
            member[word[table, place]] = True
    return member.nonzero()[0].astype(np.int32)
