"""The output layer over a lexical shortlist (SHARP section 3): the exact logits of each request's own words.

A word outside the set has probability zero, and log probabilities are normalised over the set. Marian and CTranslate2
take the union of the sets of a batch; here each request has its own, so that no answer depends on its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharpbeam import _core
from sharpbeam.types import Floats, Ids, Request, Shortlist, TopK


class ShortlistLayer:
    """`output_layers.interface.OutputLayer`; any number of decoding runs share one."""

    def __init__(self, weight: Floats, bias: Floats, shortlist: Shortlist, isa: str = "auto") -> None:
        """Keep the output matrix [V, D] and its bias [V], float32 and C-contiguous, which must not be written to."""
        self._weight, self._bias, self._shortlist, self._isa = weight, bias, shortlist, isa
        self.vocab_size = len(weight)

    def open(self) -> ShortlistRun:
        """The layer in a new decoding run; ValueError for arrays that do not fit, or a table that is not there."""
        return ShortlistRun(_core.ShortlistRun(self._weight, self._bias, self._isa), self._shortlist)


class ShortlistRun:
    """`output_layers.interface.OutputLayerRun`: the output rows of a request's words are packed once, when it enters.

    A row's answer has the same bits whatever the rows around it and the kernel table; a returned candidate's logit has
    those of the exact output_layer. Where a request has fewer than k words, the others are token 0 with -inf.
    """

    def __init__(self, native: _core.ShortlistRun, shortlist: Shortlist) -> None:
        self.core, self._shortlist = native, shortlist

    def admit(self, requests: Sequence[Request]) -> None:
        """Pack the words of each request; ValueError where one is in flight already."""
        for request in requests:
            self.core.admit(request.index, self._shortlist.words(request.source))

    def topk(self, hidden: Floats, k: int, request: Ids) -> TopK:
        """The k best words of each row of `hidden` [R, D] among those of its `request` [R], ties by lower id.

        Raises ValueError unless 1 <= k <= V, and for a request that is not in flight.
        """
        return TopK(*self.core.topk(hidden, k, request))

    def log_prob(self, hidden: Floats, token: Ids, request: Ids) -> Floats:
        """Log probability [R] of the given token [R] of each row: the same bits as from `topk`, -inf outside."""
        return self.core.log_prob(hidden, token, request)

    def evict(self, request: Ids) -> None:
        """Forget the words of the requests named by index, [n] int32."""
        self.core.evict(request)
