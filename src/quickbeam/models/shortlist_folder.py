"""The shortlist of a model folder: shortlist.safetensors and shortlist.json, written beside and renamed.

shortlist.json holds the digest of shortlist.safetensors, so that a crash between the two renames is seen, and the
digests of the weights and vocabularies that it was fitted for, so that it is refused for others.
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
from quickbeam.types import Shortlist

FORMAT_VERSION = 1
TENSORS, FACTS = "shortlist.safetensors", "shortlist.json"
AGAIN = "Make the shortlist again: quickbeam fit-shortlist."
_NAMES = ("always", "start", "token")


def save_shortlist(folder: Path, shortlist: Shortlist, identity: Mapping[str, str], facts: Mapping[str, Any]) -> None:
    """Write `shortlist` into the model folder.

    `identity` holds digests of what it was fitted for, by name; `facts` say what it was fitted on, and how.
    """
    with tempfile.TemporaryDirectory(prefix=".shortlist.", dir=folder) as beside:
        path = Path(beside) / TENSORS
        save_file({name: np.ascontiguousarray(getattr(shortlist, name)) for name in _NAMES}, path)
        path.chmod(0o644)
        record = {
            "format_version": FORMAT_VERSION,
            **identity,
            "shortlist_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            **facts,
        }
        (Path(beside) / FACTS).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        os.replace(path, folder / TENSORS)
        os.replace(Path(beside) / FACTS, folder / FACTS)


def read_shortlist(folder: Path, identity: Mapping[str, str], source_vocab: int, target_vocab: int) -> Shortlist:
    """The shortlist in the model folder, for vocabularies of these sizes; raises ModelError."""
    facts, path = read_facts(folder), folder / TENSORS
    for name, digest in identity.items():
        if facts.get(name) != digest:
            what = name.removesuffix("_sha256").replace("_", " ")
            raise ModelError(f"{folder / FACTS} was made for another {what} than this model has. {AGAIN}")
    try:
        if hashlib.sha256(path.read_bytes()).hexdigest() != facts.get("shortlist_sha256"):
            raise ModelError(f"{path} is not the file that {FACTS} belongs to: its SHA-256 differs. {AGAIN}")
        tensors = load_file(path)
    except FileNotFoundError as error:
        raise ModelError(f"{path} is missing, though {FACTS} is there. {AGAIN}") from error
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read as safetensors ({error}). {AGAIN}") from error
    _check(path, tensors, source_vocab, target_vocab)
    return Shortlist(tensors["always"], tensors["start"], tensors["token"])


def read_facts(folder: Path) -> dict[str, Any]:
    """What shortlist.json says; raises ModelError where the folder has no shortlist, or one of another version."""
    path = folder / FACTS
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelError(
            f"{folder} has no shortlist; make one: quickbeam fit-shortlist {folder} --pairs FILE."
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read as JSON ({error}). {AGAIN}") from error
    version = facts.get("format_version") if isinstance(facts, dict) else None
    if version != FORMAT_VERSION:
        raise ModelError(f"{path}: format_version is {version!r}; this Quickbeam reads {FORMAT_VERSION}. {AGAIN}")
    return dict(facts)


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
