"""The output layer over a lexical shortlist (SHARP section 3): exact logits of a set of tokens for each request.

A token outside the set has probability zero, and log probabilities are normalized over the set. Marian and CTranslate2
take the union of the sets of a batch; here each request has its own, so that no answer depends on its neighbors. A
row's answer has the same bits whatever the rows around it and the kernel table; a returned candidate's logit has those
of the exact layer. Where a row has fewer than k tokens, the others are token 0 with -inf.

With a fallback test, rows that may lack a token that matters fall back to the preview, or the scan, which look
at all tokens, and log probabilities are normalized over all tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from sharpbeam import _core
from sharpbeam.output_layers.artifact import OUTPUT, SOURCE, TARGET, Arrays, Artifact, Spec, Stored, check_fidelity
from sharpbeam.output_layers.native import AnyNativeLayer, AnyNativeRowLayer, NativeLayer
from sharpbeam.output_layers.registry import LayerInputs
from sharpbeam.types import Floats, Ids


@dataclass(frozen=True, slots=True)
class Shortlist:
    """The likely translations of each source token, from word alignment (SHARP section 3)."""

    always: Ids  # [n] tokens of every set: special and frequent ones; ascending, each once, at least one
    start: Ids  # [V of the source + 1] the translations of token s are token[start[s] : start[s + 1]], perhaps none
    token: Ids  # [start[-1]] ids of target tokens, the most likely translation first

    def tokens(self, source: Ids) -> Ids:
        """The set of a source [S]: ascending ids, each once."""
        lists = [self.token[self.start[one] : self.start[one + 1]] for one in set(source.tolist())]
        return np.unique(np.concatenate([self.always, *lists]))


@dataclass(frozen=True, slots=True)
class ShortlistTest:
    """The fallback test of a shortlist: what tokens outside a row's set may reach (csrc/output/shortlist_outside.h).

    A network of M units predicts the log of the mass outside, and the log of how far off that usually is. A row passes
    if the least logit that the search can use is `threshold` deviations above the prediction (fit/fallback_test.py);
    its normalizer stands if the mass outside is at most `most_share` of all.
    """

    inner: Floats  # [M, D]
    bias: Floats  # [M]
    outer: Floats  # [2, M]
    direct: Floats  # [2, 3] by the best logit of the set, the log of the set's mass, and 1
    threshold: float
    most_share: float
    fidelity: float = 0.0  # at least that on held-out text, with 95% confidence; 0: not measured


_LISTS: Spec = {"always": ("i4", ("a",)), "start": ("i4", ("S+1",)), "token": ("i4", ("n",))}
_TEST: Spec = {"inner": ("f4", ("M", "D")), "bias": ("f4", ("M",)), "outer": ("f4", (2, "M")), "direct": ("f4", (2, 3))}
_NUMBERS = ("threshold", "most_share", "fidelity")


def _read(stored: Stored) -> Shortlist:
    a = replace(stored, sizes={**stored.sizes, "S+1": stored.sizes["S"] + 1}).checked(_LISTS)
    stored.check_lists(a["start"], a["token"], 0)
    ascending = len(a["always"]) and (np.diff(a["always"]) > 0).all()
    stored.require(bool(ascending), "always must hold at least one token, ascending, each once")
    stored.check_ids(a["always"], "always")
    return Shortlist(a["always"], a["start"], a["token"])


def _write(shortlist: Shortlist) -> tuple[Arrays, Mapping[str, Any]]:
    return {name: getattr(shortlist, name) for name in _LISTS}, {}


def _read_test(stored: Stored) -> ShortlistTest:
    a = stored.checked(_TEST)
    stored.require(len(a["bias"]) > 0, "it has no units")
    for name in _NUMBERS:
        value = stored.facts.get(name)
        stored.require(isinstance(value, float) and np.isfinite(value), f"{name} is {value!r}; it must be a number")
    numbers = [float(stored.facts[name]) for name in _NUMBERS]
    return ShortlistTest(a["inner"], a["bias"], a["outer"], a["direct"], *numbers)


ARTIFACTS = {
    "shortlist": Artifact("shortlist", 1, "shortlist", "--pairs FILE", _read, _write, (OUTPUT, SOURCE, TARGET)),
    "shortlist_test": Artifact(
        "shortlist_test", 1, "shortlist", "--text FILE --fidelity 0.999", _read_test,
        lambda test: ({name: getattr(test, name) for name in _TEST}, {name: getattr(test, name) for name in _NUMBERS}),
        (OUTPUT, "shortlist_sha256"),
    ),
}  # fmt: skip


class ShortlistLayer(NativeLayer[_core.ShortlistLayer]):
    """The output rows of a request's set are packed once, when it enters."""

    def __init__(self, weight: Floats, bias: Floats, shortlist: Shortlist, isa: str = "auto") -> None:
        """Share the output matrix [V, D] and its bias [V], float32 and C-contiguous, which must not be written to.

        Raises ValueError for arrays that do not fit, and for an `isa` that this machine cannot run.
        """
        lists = (shortlist.always, shortlist.start, shortlist.token)
        super().__init__(_core.ShortlistLayer(weight, bias, *lists, isa))
        self.shortlist = shortlist


class ShortlistFallbackLayer(NativeLayer[_core.ShortlistFallbackLayer]):
    """A shortlist whose rows fall back unless its test is sure that they have all tokens that matter."""

    def __init__(
        self,
        weight: Floats,
        bias: Floats,
        shortlist: Shortlist,
        test: ShortlistTest,
        fallback: AnyNativeRowLayer,
        isa: str = "auto",
    ) -> None:
        """Share the output matrix [V, D] and its bias [V], as `ShortlistLayer` does; `fallback` scores all tokens."""
        lists = (shortlist.always, shortlist.start, shortlist.token)
        arrays, numbers = (test.inner, test.bias, test.outer, test.direct), (test.threshold, test.most_share)
        super().__init__(_core.ShortlistFallbackLayer(weight, bias, *lists, *arrays, *numbers, fallback.native, isa))


def build_layer(inputs: LayerInputs) -> AnyNativeLayer:
    """The layer of a model's shortlist, with its fallback test if there is one; raises ModelError without a shortlist.

    Rows that fail the test fall back to the preview, or to the scan of a model without one.
    """
    shortlist: Shortlist = inputs.artifacts.read("shortlist")
    if not inputs.artifacts.has("shortlist_test"):
        check_fidelity("shortlist", inputs.options.fidelity, 0.0)
        return ShortlistLayer(inputs.weight, inputs.bias, shortlist, inputs.isa)
    test: ShortlistTest = inputs.artifacts.read("shortlist_test")
    check_fidelity("shortlist", inputs.options.fidelity, test.fidelity)
    fallback = inputs.layer("preview" if inputs.artifacts.has("preview") else "scan")
    all_tokens = cast("AnyNativeRowLayer", fallback)
    return ShortlistFallbackLayer(inputs.weight, inputs.bias, shortlist, test, all_tokens, inputs.isa)
