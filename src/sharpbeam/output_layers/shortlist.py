"""The output layer over a lexical shortlist (SHARP section 3): exact logits of a set of tokens for each request.

A token outside the set has probability zero, and log probabilities are normalised over the set. Marian and CTranslate2
take the union of the sets of a batch; here each request has its own, so that no answer depends on its neighbours. A
row's answer has the same bits whatever the rows around it and the kernel table; a returned candidate's logit has those
of the exact layer. Where a row has fewer than k tokens, the others are token 0 with -inf.

A safety net sends the rows that may lack a token that matters to the proven layer, which scores all tokens. With it,
log probabilities are normalised over all tokens.
"""

from __future__ import annotations

from typing import cast

from sharpbeam import _core
from sharpbeam.output_layers.fitted import Net, Shortlist
from sharpbeam.output_layers.native import AnyNativeLayer, AnyNativeRowLayer, NativeLayer
from sharpbeam.output_layers.registry import LayerInputs
from sharpbeam.types import Floats

LAYERS = {
    "shortlist": ("from the likely translations of the source's tokens (see fit-shortlist)", ("shortlist",)),
    "shortlist-net": (
        "from those, but for rows that may lack a token, which are proven's (see fit-net)",
        ("low_bit", "net", "shortlist"),
    ),
}


class ShortlistLayer(NativeLayer[_core.ShortlistLayer]):
    """The output rows of a request's set are packed once, when it enters."""

    def __init__(self, weight: Floats, bias: Floats, shortlist: Shortlist, isa: str = "auto") -> None:
        """Share the output matrix [V, D] and its bias [V], float32 and C-contiguous, which must not be written to.

        Raises ValueError for arrays that do not fit, and for an `isa` that this machine cannot run.
        """
        lists = (shortlist.always, shortlist.start, shortlist.token)
        super().__init__(_core.ShortlistLayer(weight, bias, *lists, isa))
        self.shortlist = shortlist


class ShortlistNetLayer(NativeLayer[_core.ShortlistNetLayer]):
    """A shortlist whose rows fall back where its net is not sure that they have all tokens that matter."""

    def __init__(
        self,
        weight: Floats,
        bias: Floats,
        shortlist: Shortlist,
        net: Net,
        fallback: AnyNativeRowLayer,
        isa: str = "auto",
    ) -> None:
        """Share the output matrix [V, D] and its bias [V], as `ShortlistLayer` does; `fallback` scores all tokens."""
        lists = (shortlist.always, shortlist.start, shortlist.token)
        arrays, numbers = (net.inner, net.bias, net.outer, net.direct), (net.threshold, net.most_share)
        super().__init__(_core.ShortlistNetLayer(weight, bias, *lists, *arrays, *numbers, fallback.native, isa))

    @property
    def fallback_share(self) -> float:
        """Share of the rows so far that fell back."""
        share: float = self.native.rows_fallen_back / max(self.native.rows_seen, 1)
        return share


def build_layer(name: str, given: LayerInputs) -> AnyNativeLayer:
    """The layer of a model's shortlist; raises ModelError where there is none."""
    shortlist = given.artifacts.shortlist()
    if name == "shortlist":
        return ShortlistLayer(given.weight, given.bias, shortlist, given.isa)
    calibrated = cast("AnyNativeRowLayer", given.layer("calibrated"))
    return ShortlistNetLayer(given.weight, given.bias, shortlist, given.artifacts.net(), calibrated, given.isa)
