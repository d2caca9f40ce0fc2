"""The screen of a model folder, or its screens by language: screen.safetensors and screen.json.

A screen for all requests has its facts and tensors at the top. Where there are several, screen.json says what each is
`per`, and has the facts of each by its scope ("de-en") in `screens`; a tensor is called SCOPE/NAME.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpbeam.errors import ModelError
from sharpbeam.output_layers.fitted import FallbackTest, ResidualMass, Screen, Screens
from sharpbeam.storage.artifacts import OUTPUT, Fitted, output_digest
from sharpbeam.types import Floats, Per

# Format 1 had no residual mass, and another test. In format 2 that had one component, and there was no mass test.
SCREEN = Fitted("screen", 3, "fit-screen", "--text FILE", older=(2,))
TENSORS, FACTS, AGAIN = SCREEN.tensors, SCREEN.facts, SCREEN.again
_NAMES = ("weight", "bias", "start", "token", "tail_weight", "tail_bias", "center")
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


def save_screen(folder: Path, screen: Screen, weight: Floats, bias: Floats, facts: Mapping[str, Any]) -> None:
    """Write `screen`, fitted for the output `weight` [V, D] and `bias` [V], into the model folder.

    `facts` says what it was fitted on and how good it is; it stands in screen.json temporary what is needed to read it.
    """
    SCREEN.save(
        folder,
        _tensors_of(screen),
        {OUTPUT: output_digest(weight, bias)},
        {"doubt": _facts_of(screen), **facts},  # vocabulary: stored
    )


def save_screens(
    folder: Path, screens: Screens, weight: Floats, bias: Floats, facts: Mapping[str, Mapping[str, Any]]
) -> None:
    """The same for `screens`, and the `facts` of each by its scope."""
    if screens.per == "all":
        return save_screen(folder, screens.by_scope[""], weight, bias, facts[""])
    tensors = {
        f"{scope}/{name}": tensor
        for scope, screen in screens.by_scope.items()
        for name, tensor in _tensors_of(screen).items()
    }
    each = {
        scope: {"doubt": _facts_of(screen), **facts[scope]}  # vocabulary: stored
        for scope, screen in screens.by_scope.items()
    }
    SCREEN.save(folder, tensors, {OUTPUT: output_digest(weight, bias)}, {"per": screens.per, "screens": each})


def read_screen(folder: Path, weight: Floats, bias: Floats) -> Screen:
    """The one screen in the model folder, for the output `weight` [V, D] and `bias` [V]; raises ModelError."""
    screens = read_screens(folder, weight, bias)
    if screens.per != "all":
        raise ModelError(
            f"{folder / FACTS} has one for each of {', '.join(screens.by_scope)}; a screen for all is needed."
        )
    return screens.by_scope[""]


def read_screens(folder: Path, weight: Floats, bias: Floats) -> Screens:
    """The screens in the model folder, for the output `weight` [V, D] and `bias` [V]; raises ModelError."""
    facts, tensors = SCREEN.read(folder, {OUTPUT: output_digest(weight, bias)})
    per, each = screens_in(folder, facts)
    if per == "all":
        return Screens("all", {"": _screen_of(folder, tensors, facts, weight)})
    groups: dict[str, dict[str, NDArray[Any]]] = {scope: {} for scope in each}
    for name, tensor in tensors.items():
        scope, _, own = name.rpartition("/")
        if scope not in groups:
            raise ModelError(f"{folder / TENSORS} holds {name}, which is of none of {', '.join(each)}. {AGAIN}")
        groups[scope][own] = tensor
    version = {"format_version": facts["format_version"]}
    found = {scope: _screen_of(folder, own, each[scope] | version, weight) for scope, own in groups.items()}
    return Screens(per, found)


def screens_in(folder: Path, facts: Mapping[str, Any]) -> tuple[Per, dict[str, dict[str, Any]]]:
    """The unit that there is a screen per, and the facts of each by its scope, from screen.json.

    Raises ModelError.
    """
    per, each = facts.get("per", "all"), facts.get("screens", {})
    if per == "all":
        return "all", {"": dict(facts)}
    sound = isinstance(each, dict) and each and all(isinstance(own, dict) for own in each.values())
    if per not in ("target", "direction") or not sound:
        raise ModelError(f"{folder / FACTS}: per is {per!r}; it must be target or direction, with screens. {AGAIN}")
    return per, each


def _tensors_of(screen: Screen) -> dict[str, NDArray[Any]]:
    tensors: dict[str, NDArray[Any]] = {name: getattr(screen, name) for name in ("weight", "bias", "start", "token")}
    if screen.residual is not None:
        tensors |= {"tail_weight": screen.residual.weight, "tail_bias": screen.residual.bias}
    if screen.fallback is not None:
        tensors["center"] = screen.fallback.center
    return tensors


def _facts_of(screen: Screen) -> dict[str, Any] | None:
    """The facts of the fallback test of `screen`, for screen.json."""
    if screen.fallback is None:
        return None
    facts = {key: getattr(screen.fallback, field) for key, field in _TEST.items()}
    return facts | {key: None for key in _UNBOUNDED if not np.isfinite(facts[key])}


def _screen_of(folder: Path, tensors: dict[str, NDArray[Any]], facts: Mapping[str, Any], weight: Floats) -> Screen:
    """The screen that `tensors` and `facts` of the model folder are; raises ModelError."""
    path = folder / TENSORS
    test = facts.get("doubt")  # vocabulary: a key of older files
    if facts["format_version"] == 2:
        tensors |= {name: tensors[name][:, None] for name in ("tail_weight", "tail_bias") if name in tensors}
        test = test | {"loosest": None} if isinstance(test, dict) else test
    _check(path, tensors, test, weight)
    residual = ResidualMass(tensors["tail_weight"], tensors["tail_bias"]) if "tail_weight" in tensors else None
    try:
        fallback = None if test is None else _test(tensors["center"], test)
    except (KeyError, TypeError, ValueError) as error:
        said = f"doubt is {test!r}; it needs {', '.join(_TEST)}"  # vocabulary: a key of older files
        raise ModelError(f"{folder / FACTS}: {said}. {AGAIN}") from error
    return Screen(tensors["weight"], tensors["bias"], tensors["start"], tensors["token"], residual, fallback)


def _test(center: Floats, facts: Mapping[str, Any]) -> FallbackTest:
    infinite = {key for key in _UNBOUNDED if facts[key] is None}
    values = {f: float("inf") if key in infinite else float(facts[key]) for key, f in _TEST.items() if key != "k"}
    return FallbackTest(center, int(facts["k"]), **values)


def _check(path: Path, tensors: Mapping[str, NDArray[Any]], test: Any, output: Floats) -> None:
    """Names, dtypes and shapes of the tensors; what the sets hold is checked where they are packed."""
    without = set() if test is not None else {"center"}
    if test is None and "tail_weight" not in tensors:
        without |= {"tail_weight", "tail_bias"}  # a test needs them
    names = [name for name in _NAMES if name not in without]
    if sorted(tensors) != sorted(names):
        raise ModelError(f"{path} holds {', '.join(sorted(tensors))}; it must hold {', '.join(names)}. {AGAIN}")
    clusters, tokens = len(tensors["weight"]), len(tensors["token"])
    components = tensors["tail_bias"].shape[-1] if "tail_bias" in tensors and tensors["tail_bias"].ndim else 0
    shapes = {
        "weight": (clusters, output.shape[1]),
        "bias": (clusters,),
        "start": (clusters + 1,),
        "token": (tokens,),
        "tail_weight": (clusters, components, output.shape[1]),
        "tail_bias": (clusters, components),
        "center": (clusters, output.shape[1]),
    }
    for name in names:
        tensor, dtype = tensors[name], np.dtype(np.int32 if name in ("start", "token") else np.float32)
        if tensor.dtype != dtype or tensor.shape != shapes[name]:
            raise ModelError(
                f"{path}: {name} is {tensor.dtype} of shape {list(tensor.shape)}; it must be "
                f"{dtype} of shape {list(shapes[name])}. {AGAIN}"
            )
    start, token = tensors["start"], tensors["token"]
    if start[0] != 0 or start[-1] != tokens or (np.diff(start) < 1).any() or token.min(initial=0) < 0:
        raise ModelError(f"{path}: start must rise from 0 to the number of tokens, {tokens}. {AGAIN}")
    if token.max(initial=0) >= len(output):
        raise ModelError(f"{path}: a token is {token.max()}; the model has {len(output)}. {AGAIN}")
