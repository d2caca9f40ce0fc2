"""The screened output layer (L2S section 3, CVP section 2.3): exact logits of the best tokens of a row's cluster.

Without a residual mass, log probabilities are normalized over the set (L2S section 4.2) and a token outside has
probability zero. A residual mass completes the normalizer: it predicts, from the hidden vector, the mass of all tokens
outside together. L2S (L2S-12) takes low-rank logits of every token for that; this is a product with a few vectors. Rows
that the screen's fallback test finds uncertain fall back to a layer that scores all tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sharpbeam import _core
from sharpbeam.output_layers.artifact import Arrays, Artifact, Spec, Stored, check_fidelity
from sharpbeam.output_layers.by_language import ByLanguage
from sharpbeam.output_layers.native import AnyNativeLayer, AnyNativeRowLayer, NativeRowLayer
from sharpbeam.output_layers.registry import LayerInputs
from sharpbeam.types import Floats, Ids, Per


@dataclass(frozen=True, slots=True)
class ResidualMass:
    """The mass of the tokens outside the set of a cluster: the sum of exp(weight . h + bias) over M components.

    Each component stands for tokens whose logits move together. It completes the normalizer, so that the log
    probabilities of a screen and of the exact layer are on one scale.
    """

    weight: Floats  # [C, M, D]
    bias: Floats  # [C, M]


@dataclass(frozen=True, slots=True)
class FallbackTest:
    """The test that finds the rows that a screen is uncertain of, which fall back to a layer that scores all tokens.

    A row is certain where its set is sure to hold all tokens that matter (margin test), and its normalizer is sure to
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
    fidelity: float = 0.0  # of all of them at least, on held-out text with 95% confidence; 0: not measured


_ARRAYS: Spec = {
    "weight": ("f4", ("C", "D")),
    "bias": ("f4", ("C",)),
    "start": ("i4", ("C+1",)),
    "token": ("i4", ("n",)),
}
_MASS: Spec = {"tail_weight": ("f4", ("C", "M", "D")), "tail_bias": ("f4", ("C", "M"))}
_CENTER: Spec = {"center": ("f4", ("C", "D"))}
# The keys of a fallback test in screen.json, and the fields that they are.  vocabulary: keys of older files
_TEST = {
    "k": "k",
    "margin": "margin",
    "by_tail": "mass_weight",
    "by_far": "distance_weight",
    "offset": "threshold",
    "loosest": "max_log_share",
}
_UNBOUNDED = ("margin", "loosest")  # may be infinite, which JSON cannot say: null


def _read(stored: Stored) -> Screens:
    per: Per = stored.facts.get("per", "all")
    each: Any = {"": dict(stored.facts)} if per == "all" else stored.facts.get("screens", {})
    if per != "all":
        sound = isinstance(each, dict) and each and all(isinstance(own, dict) for own in each.values())
        sound = sound and per in ("target", "direction")
        stored.require(bool(sound), f"per is {per!r}; it must be target or direction, with screens")
        others = ", ".join(sorted({name.rpartition("/")[0] for name in stored.arrays} - each.keys()))
        stored.require(not others, f"it holds arrays of {others}, which are of none of {', '.join(each)}")
    screens = {scope: _screen(stored, own, f"{scope}/" if scope else "") for scope, own in each.items()}
    # The bound of the text that the test was set on, by which a fit succeeds; older ones have that of other text only.
    fidelities = [
        float(dict(own.get("chosen_on") or own.get("held_out") or {}).get("bound", 0.0)) for own in each.values()
    ]
    stored.require(all(0.0 <= one <= 1.0 for one in fidelities), f"it has the bounds {fidelities}, not 0 to 1")
    return Screens(per, screens, min(fidelities))


def _screen(stored: Stored, facts: Mapping[str, Any], prefix: str) -> Screen:
    """The screen that the arrays under `prefix` and its facts are; raises ModelError."""
    test = facts.get("doubt")  # vocabulary: a key of older files
    has_mass = test is not None or f"{prefix}tail_weight" in stored.arrays
    spec = _ARRAYS | (_MASS if has_mass else {}) | (_CENTER if test is not None else {})
    clusters = len(stored.arrays.get(f"{prefix}weight", ()))
    sized = replace(stored, sizes={**stored.sizes, "C+1": clusters + 1})
    a = sized.checked(spec, prefix)
    stored.check_lists(a["start"], a["token"], 1, prefix)
    residual = ResidualMass(a["tail_weight"], a["tail_bias"]) if has_mass else None
    fallback = None
    if test is not None:
        stored.require(
            isinstance(test, dict) and test.keys() >= _TEST.keys(),
            f"doubt is {test!r}; it needs {', '.join(_TEST)}",  # vocabulary: a key of older files
        )
        numbers = {f: float("inf") if test[key] is None else float(test[key]) for key, f in _TEST.items()}
        fallback = FallbackTest(a["center"], **(numbers | {"k": int(test["k"])}))  # type: ignore[arg-type]
    return Screen(a["weight"], a["bias"], a["start"], a["token"], residual, fallback)


def _write(screens: Screens) -> tuple[Arrays, Mapping[str, Any]]:
    """Arrays, and the facts of fallback tests. Of several screens an array is called SCOPE/NAME."""
    arrays, each = dict[str, NDArray[Any]](), {}
    for scope, screen in screens.by_scope.items():
        own: dict[str, NDArray[Any]] = {name: getattr(screen, name) for name in _ARRAYS}
        if screen.residual is not None:
            own |= {"tail_weight": screen.residual.weight, "tail_bias": screen.residual.bias}
        test = None
        if screen.fallback is not None:
            own["center"] = screen.fallback.center
            test = {key: getattr(screen.fallback, name) for key, name in _TEST.items()}
            test |= {key: None for key in _UNBOUNDED if not np.isfinite(test[key])}
        arrays |= {f"{scope}/{name}" if scope else name: array for name, array in own.items()}
        each[scope] = {"doubt": test}  # vocabulary: stored
    return arrays, each[""] if screens.per == "all" else {"per": screens.per, "screens": each}


ARTIFACTS = {"screen": Artifact("screen", 3, "screen", "--text FILE", _read, _write)}


class ScreenLayer(NativeRowLayer[_core.ScreenLayer]):
    """Choice of the cluster, logits of its set and top k in one native call.

    A returned candidate's logit has the bits of the exact layer's. Where a row has fewer than k candidates, the others
    are token 0 with -inf. Tokens outside the row's set have probability zero without a residual mass; with one, they
    share it as the exact layer's probabilities do, so that probabilities sum to 1 however wrong it is. Such a token can
    be scored, which costs as much as the exact layer, and is no candidate.
    """

    def __init__(self, native: _core.ScreenLayer, fallback: AnyNativeRowLayer | None, tested: int = 0) -> None:
        super().__init__(native)
        self.fallback = fallback
        """The layer that answers the uncertain rows; None where the screen answers all."""
        self.tested = tested
        """How many best tokens of a certain row the test is about."""

    @classmethod
    def build(
        cls,
        weight: Floats,
        bias: Floats,
        screen: Screen,
        fallback: AnyNativeRowLayer | None = None,
        isa: str = "auto",
        *,
        int8: bool = True,
    ) -> ScreenLayer:
        """Pack the rows of the output matrix [V, D] with bias [V] for each cluster of `screen`.

        `fallback` answers the rows that the screen's test finds uncertain; without it, the screen answers all. With
        `int8`, clusters and tokens are found by int8 logits, and the tokens that may be among the best take exact
        logits; without, all of a set do. The matrix is shared, and must not be written to afterwards. Raises
        ValueError for arrays that do not fit.
        """
        if screen.fallback is None or fallback is None:
            return cls(_native(weight, bias, replace(screen, fallback=None), isa, int8), None)
        return cls(_native(weight, bias, screen, isa, int8, fallback.native), fallback, screen.fallback.k)


class ScreenUnionLayer(NativeRowLayer[_core.ScreenUnionLayer]):
    """The published layer of CVP (section 2.3): the rows of a step share the union of their sets.

    One gathered matmul over the union, and a softmax over it; tokens outside have probability zero. A row's answer
    depends on the other rows of its step, unlike that of every other layer: it changes with the batch.
    """

    def __init__(self, weight: Floats, bias: Floats, screen: Screen, isa: str = "auto") -> None:
        """Share the output matrix [V, D] with bias [V]; residual mass and fallback test of `screen` are not used."""
        super().__init__(
            _core.ScreenUnionLayer(weight, bias, screen.weight, screen.bias, screen.start, screen.token, isa)
        )


class FallbackFeatures:
    """The features of the fallback test of a screen, of each row [n]."""

    def __init__(self, weight: Floats, bias: Floats, screen: Screen, hidden: Floats) -> None:
        """Look at `hidden` [n, D]; of the screen's test center and k count, without one a center of 0 and a k of 1."""
        test = screen.fallback or FallbackTest(np.zeros_like(screen.weight), 1, np.inf, 0.0, 0.0, 0.0)
        native = _native(weight, bias, replace(screen, fallback=test))
        self.best, self.kth, self.log_mass, self.distance, self.log_total = native.features(hidden).T.copy()
        self.log_share: Floats = self.log_mass - self.log_total
        """The log of the share of the tokens outside, by the residual mass."""
        self.cluster = native.assign(hidden)

    def certainty(self, margin: float, mass_weight: float, distance_weight: float) -> Floats:
        """The left side of the margin test, which is held against its threshold."""
        bar = np.maximum(self.kth, self.best - np.float32(margin))  # the lowest logit that matters
        certainty: Floats = bar - np.float32(mass_weight) * self.log_mass - np.float32(distance_weight) * self.distance
        return certainty

    def uncertain(self, test: FallbackTest) -> NDArray[np.bool_]:
        """Which rows [n] fall back."""
        certainty = self.certainty(test.margin, test.mass_weight, test.distance_weight)
        return ~((certainty >= np.float32(test.threshold)) & (self.log_share <= np.float32(test.max_log_share)))


def _native(
    weight: Floats,
    bias: Floats,
    screen: Screen,
    isa: str = "auto",
    int8: bool = True,
    fallback: _core.RowLayer | None = None,
) -> _core.ScreenLayer:
    """The layer in the core; with a test and no `fallback` it only says the features of the test."""
    arrays = (weight, bias, screen.weight, screen.bias, screen.start, screen.token)
    residual, test = screen.residual, screen.fallback
    if residual is None:
        return _core.ScreenLayer(*arrays, isa, int8)
    mass = (residual.weight, residual.bias)
    if test is None:
        return _core.ScreenLayer(*arrays, isa, int8, None, *mass)
    numbers = (test.margin, test.mass_weight, test.distance_weight, test.threshold, test.max_log_share)
    return _core.ScreenLayer(*arrays, isa, int8, fallback, *mass, test.center, test.k, *numbers)


def build_layer(inputs: LayerInputs) -> AnyNativeLayer:
    """The layer of a model's screen, or of its screens by language; raises ModelError if there is none."""
    screens: Screens = inputs.artifacts.read("screen")
    check_fidelity("screen", inputs.options.fidelity, screens.fidelity)
    sets = inputs.options.screen_sets

    def build(screen: Screen) -> AnyNativeLayer:
        if sets == "union":
            return ScreenUnionLayer(inputs.weight, inputs.bias, screen, inputs.isa)
        if sets == "alone":
            screen = replace(screen, residual=None, fallback=None)
        scan = None if screen.fallback is None else cast("AnyNativeRowLayer", inputs.layer("scan"))
        return ScreenLayer.build(inputs.weight, inputs.bias, screen, scan, inputs.isa)

    layers = {scope: build(screen) for scope, screen in screens.by_scope.items()}
    return layers[""] if screens.per == "all" else ByLanguage(screens.per, layers)
