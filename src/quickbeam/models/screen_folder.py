"""The screen of a model folder: screen.safetensors and screen.json, written beside and renamed, never unpickled.

screen.json holds the digest of screen.safetensors, so that a crash between the two renames is seen, and the digest of
the output weights that the screen was fitted for, so that it is refused for others.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from quickbeam.errors import ModelError
from quickbeam.types import Doubt, Floats, Screen, Tail

FORMAT_VERSION = 2  # 1 had no tail, and another test
TENSORS, FACTS = "screen.safetensors", "screen.json"
AGAIN = "Fit the screen again: quickbeam fit-screen."
_TYPES = {
    "weight": np.float32,
    "bias": np.float32,
    "start": np.int32,
    "token": np.int32,
    "tail_weight": np.float32,
    "tail_bias": np.float32,
    "center": np.float32,
}
_TEST = ("k", "margin", "by_tail", "by_far", "offset")


def save_screen(folder: Path, screen: Screen, weight: Floats, bias: Floats, facts: Mapping[str, Any]) -> None:
    """Write `screen`, fitted for the output `weight` [V, D] and `bias` [V], into the model folder.

    `facts` says what it was fitted on and how good it is; it stands in screen.json beside what is needed to read it.
    """
    tensors: dict[str, NDArray[Any]] = {
        name: np.ascontiguousarray(getattr(screen, name)) for name in ("weight", "bias", "start", "token")
    }
    doubt = None
    if screen.tail is not None:
        tensors |= {"tail_weight": screen.tail.weight, "tail_bias": screen.tail.bias}
    if screen.doubt is not None:
        tensors["center"] = np.ascontiguousarray(screen.doubt.center)
        doubt = {name: getattr(screen.doubt, name) for name in _TEST}
        if not np.isfinite(screen.doubt.margin):
            doubt["margin"] = None  # JSON has no infinity
    with tempfile.TemporaryDirectory(prefix=".screen.", dir=folder) as beside:
        path = Path(beside) / TENSORS
        save_file(tensors, path)
        path.chmod(0o644)
        record = {
            "format_version": FORMAT_VERSION,
            "output_sha256": output_digest(weight, bias),
            "screen_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "doubt": doubt,
            **facts,
        }
        (Path(beside) / FACTS).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        os.replace(path, folder / TENSORS)
        os.replace(Path(beside) / FACTS, folder / FACTS)


def read_screen(folder: Path, weight: Floats, bias: Floats) -> Screen:
    """The screen in the model folder, for the output `weight` [V, D] and `bias` [V]; raises ModelError."""
    facts, path = read_facts(folder), folder / TENSORS
    if facts.get("output_sha256") != output_digest(weight, bias):
        raise ModelError(f"{folder / FACTS} was fitted for other weights than those of this model. {AGAIN}")
    try:
        if hashlib.sha256(path.read_bytes()).hexdigest() != facts.get("screen_sha256"):
            raise ModelError(f"{path} is not the file that {FACTS} belongs to: its SHA-256 differs. {AGAIN}")
        tensors = load_file(path)
    except FileNotFoundError as error:
        raise ModelError(f"{path} is missing, though {FACTS} is there. {AGAIN}") from error
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read as safetensors ({error}). {AGAIN}") from error
    doubt = facts.get("doubt")
    _check(path, tensors, doubt, weight)
    tail = Tail(tensors["tail_weight"], tensors["tail_bias"]) if "tail_weight" in tensors else None
    try:
        test = None if doubt is None else _test(tensors["center"], doubt)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{folder / FACTS}: doubt is {doubt!r}; it needs {', '.join(_TEST)}. {AGAIN}") from error
    return Screen(tensors["weight"], tensors["bias"], tensors["start"], tensors["token"], tail, test)


def _test(center: Floats, doubt: Mapping[str, Any]) -> Doubt:
    margin = float("inf") if doubt["margin"] is None else float(doubt["margin"])
    by_tail, by_far, offset = (float(doubt[name]) for name in ("by_tail", "by_far", "offset"))
    return Doubt(center, int(doubt["k"]), margin, by_tail, by_far, offset)


def read_facts(folder: Path) -> dict[str, Any]:
    """What screen.json says; raises ModelError where the folder has no screen, or one of another version."""
    path = folder / FACTS
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelError(f"{folder} has no screen; make one: quickbeam fit-screen {folder} --text FILE.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read as JSON ({error}). {AGAIN}") from error
    version = facts.get("format_version") if isinstance(facts, dict) else None
    if version != FORMAT_VERSION:
        raise ModelError(f"{path}: format_version is {version!r}; this Quickbeam reads {FORMAT_VERSION}. {AGAIN}")
    return dict(facts)


def output_digest(weight: Floats, bias: Floats) -> str:
    """SHA-256 over the output matrix and its bias, as float32."""
    digest = hashlib.sha256(np.ascontiguousarray(weight, np.float32).data)
    digest.update(np.ascontiguousarray(bias, np.float32).data)
    return digest.hexdigest()


def _check(path: Path, tensors: Mapping[str, NDArray[Any]], doubt: Any, output: Floats) -> None:
    """Names, dtypes and shapes of the tensors; what the sets hold is checked where they are packed."""
    without = set() if doubt is not None else {"center"}
    if doubt is None and "tail_weight" not in tensors:
        without |= {"tail_weight", "tail_bias"}  # a test needs them
    names = [name for name in _TYPES if name not in without]
    if sorted(tensors) != sorted(names):
        raise ModelError(f"{path} holds {', '.join(sorted(tensors))}; it must hold {', '.join(names)}. {AGAIN}")
    clusters, words = len(tensors["weight"]), len(tensors["token"])
    shapes = {
        "weight": (clusters, output.shape[1]),
        "bias": (clusters,),
        "start": (clusters + 1,),
        "token": (words,),
        "tail_weight": (clusters, output.shape[1]),
        "tail_bias": (clusters,),
        "center": (clusters, output.shape[1]),
    }
    for name in names:
        tensor = tensors[name]
        if tensor.dtype != _TYPES[name] or tensor.shape != shapes[name]:
            raise ModelError(
                f"{path}: {name} is {tensor.dtype} of shape {list(tensor.shape)}; it must be "
                f"{np.dtype(_TYPES[name])} of shape {list(shapes[name])}. {AGAIN}"
            )
    start, token = tensors["start"], tensors["token"]
    if start[0] != 0 or start[-1] != words or (np.diff(start) < 1).any() or token.min(initial=0) < 0:
        raise ModelError(f"{path}: start must rise from 0 to the number of words, {words}. {AGAIN}")
    if token.max(initial=0) >= len(output):
        raise ModelError(f"{path}: a word is {token.max()}; the model has {len(output)}. {AGAIN}")
