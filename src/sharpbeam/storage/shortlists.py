"""The shortlist of a model folder: shortlist.safetensors and shortlist.json."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpbeam.errors import ModelError
from sharpbeam.output_layers.fitted import Shortlist
from sharpbeam.storage.artifacts import OUTPUT, Fitted, output_digest
from sharpbeam.types import Floats

SHORTLIST = Fitted("shortlist", 1, "fit-shortlist", "--pairs FILE")
TENSORS, FACTS, AGAIN = SHORTLIST.tensors, SHORTLIST.facts, SHORTLIST.again
_NAMES = ("always", "start", "token")


def shortlist_identity(weight: Floats, bias: Floats, source: bytes, target: bytes) -> dict[str, str]:
    """Digests of what a shortlist is made for: the output `weight` [V, D] and `bias` [V], and both vocabularies."""
    return {
        OUTPUT: output_digest(weight, bias),
        "source_vocabulary_sha256": hashlib.sha256(source).hexdigest(),
        "target_vocabulary_sha256": hashlib.sha256(target).hexdigest(),
    }


def save_shortlist(folder: Path, shortlist: Shortlist, identity: Mapping[str, str], facts: Mapping[str, Any]) -> None:
    """Write `shortlist` into the model folder.

    `identity` holds digests of what it was fitted for, by name; `facts` say what it was fitted on, and how.
    """
    SHORTLIST.save(folder, {name: getattr(shortlist, name) for name in _NAMES}, identity, facts)


def read_shortlist(folder: Path, identity: Mapping[str, str], source_vocab: int, target_vocab: int) -> Shortlist:
    """The shortlist in the model folder, for vocabularies of these sizes; raises ModelError."""
    _, tensors = SHORTLIST.read(folder, identity)
    _check(folder / TENSORS, tensors, source_vocab, target_vocab)
    return Shortlist(tensors["always"], tensors["start"], tensors["token"])


def _check(path: Path, tensors: Mapping[str, NDArray[Any]], source_vocab: int, target_vocab: int) -> None:
    """Names, dtypes, shapes and ids of the tensors."""
    if sorted(tensors) != sorted(_NAMES):
        raise ModelError(f"{path} holds {', '.join(sorted(tensors))}; it must hold {', '.join(_NAMES)}. {AGAIN}")
    for name in _NAMES:
        tensor = tensors[name]
        if tensor.dtype != np.int32 or tensor.ndim != 1:
            raise ModelError(f"{path}: {name} is {tensor.dtype} of shape {list(tensor.shape)}; it must be int32 [n].")
    always, start, token = (tensors[name] for name in _NAMES)
    if len(start) != source_vocab + 1 or start[0] != 0 or start[-1] != len(token) or (np.diff(start) < 0).any():
        raise ModelError(
            f"{path}: start must have {source_vocab + 1} numbers that rise from 0 to the number of translations, "
            f"{len(token)}. {AGAIN}"
        )
    if len(always) == 0 or (np.diff(always) < 1).any():
        raise ModelError(f"{path}: always must hold at least one word, ascending, each once. {AGAIN}")
    for name, ids in (("always", always), ("token", token)):
        if ids.min(initial=0) < 0 or ids.max(initial=0) >= target_vocab:
            raise ModelError(f"{path}: {name} holds a word outside 0 to {target_vocab - 1}. {AGAIN}")
