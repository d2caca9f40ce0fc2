"""A cluster screen and a lexical shortlist together: the words that both allow, or those that either does.

Both guess what comes next, from other things: a screen from the hidden vector (L2S, CVP), a shortlist from the source
(SHARP section 3). Where they share few words, the fewest are scored; joined, one makes up for what the other lacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from sharpbeam import _core
from sharpbeam.types import Floats, Ids, Request, Screen, Shortlist, TopK

Join = Literal["and", "or"]


class JoinedLayer:
    """`output_layers.interface.OutputLayer`: exact logits of the words that screen and shortlist, or one of them,
    allow.

    Log probabilities are normalised over the row's words, and other words have probability zero; the screen's doubts
    are not asked. Where a row's cluster and its request share no word, its request's words are taken.
    """

    def __init__(
        self, weight: Floats, bias: Floats, screen: Screen, shortlist: Shortlist, join: Join, isa: str = "auto"
    ) -> None:
        """Keep the output matrix [V, D] and its bias [V], float32 and C-contiguous, which must not be written to."""
        self.weight, self.bias, self.isa = weight, bias, isa
        self.screen, self.shortlist, self.join = screen, shortlist, join
        self.clusters = _core.Linear(screen.weight, screen.bias)
        self.vocab_size = len(weight)

    def open(self) -> JoinedRun:
        """The layer in a new decoding run; ValueError for arrays that do not fit, or a table that is not there."""
        return JoinedRun(self)


class JoinedRun:
    """`output_layers.interface.OutputLayerRun`: a row's answer has the same bits whatever the rows around it and the
    table.
    """

    def __init__(self, layer: JoinedLayer) -> None:
        self._layer = layer
        self._native = _core.ShortlistRun(layer.weight, layer.bias, layer.isa)
        self._words: dict[int, Ids] = {}  # of each request in flight
        self._joined: dict[int, dict[int, Ids]] = {}  # the same with each cluster that its rows have met

    def admit(self, requests: Sequence[Request]) -> None:
        """Look up the words of each request."""
        for request in requests:
            self._words[request.index] = self._layer.shortlist.words(request.source)
            self._joined[request.index] = {}

    def topk(self, hidden: Floats, k: int, request: Ids) -> TopK:
        """The k best words of each row of `hidden` [R, D] among those of its cluster and its `request` [R].

        Ties by lower id. Where a row has fewer than k words, the others are token 0 with -inf. Raises ValueError
        unless 1 <= k <= V, KeyError for a request that is not in flight.
        """
        return TopK(*self._native.topk_among(hidden, k, *self._lists(hidden, request)))

    def log_prob(self, hidden: Floats, token: Ids, request: Ids) -> Floats:
        """Log probability [R] of the given token [R] of each row: the same bits as from `topk`, -inf outside."""
        return self._native.log_prob_among(hidden, token, *self._lists(hidden, request))

    def evict(self, request: Ids) -> None:
        """Forget the requests named by index, [n] int32."""
        for index in request.tolist():
            del self._words[index], self._joined[index]

    def _lists(self, hidden: Floats, request: Ids) -> tuple[Ids, Ids]:
        """The words of each row, one behind the other, and where each row's begin [R + 1]."""
        cluster = self._layer.clusters.apply(hidden, self._layer.isa).argmax(axis=1)  # z(h), L2S eq. 3
        lists = [self._join(*place) for place in zip(request.tolist(), cluster.tolist(), strict=True)]
        start = np.cumsum([0, *map(len, lists)]).astype(np.int32)
        return np.concatenate([np.empty(0, np.int32), *lists]), start

    def _join(self, request: int, cluster: int) -> Ids:
        """The words of a row, ascending."""
        known = self._joined[request]
        if cluster not in known:
            screen, own = self._layer.screen, self._words[request]
            others = screen.token[screen.start[cluster] : screen.start[cluster + 1]]
            if self._layer.join == "or":
                known[cluster] = np.union1d(own, others)
            else:
                shared = np.intersect1d(own, others, assume_unique=True)
                known[cluster] = shared if len(shared) else own
        return known[cluster]
