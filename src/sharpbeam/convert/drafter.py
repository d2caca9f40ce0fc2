"""The clustered output layer of Gemma 4's drafters (`masked_embedding`), as a screen and back.

Two tensors: `masked_embedding.centroids.weight` [C, D], and `masked_embedding.token_ordering` [V], all tokens cluster
by cluster, V / C each. A drafter scores the tokens of the `centroid_intermediate_top_k` clusters with the largest
centroid . h; a screen those of the best cluster alone, so that its best token is the drafter's where that is 1 and two
clusters are not nearly equal (a screen compares them in int8).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import save_file

from sharpbeam.api.head import HEAD, output_arrays, read_head
from sharpbeam.convert.formats.weights import BFloat16, Weights
from sharpbeam.errors import InputError, ModelError, OutputError
from sharpbeam.output_layers.fitted import Screen
from sharpbeam.storage.atomic import replacing_files
from sharpbeam.storage.screens import read_screen, save_screen
from sharpbeam.storage.tensors import tensor_entries
from sharpbeam.types import Floats, Ids

WEIGHTS = "model.safetensors"
CENTROIDS, ORDERING = "masked_embedding.centroids.weight", "masked_embedding.token_ordering"
_OUTPUTS = ("lm_head.weight", "model.embed_tokens.weight")  # the second where they are tied
_FLOATS, _INTEGERS = ("F32", "F16", "BF16"), ("I64", "I32")


def convert_drafter(source: str | Path, to: str | Path) -> Screen:
    """Write the output matrix and clusters of the drafter in folder `source` to folder `to`.

    `Head.load(to, "screen-alone")` then scores the best cluster. Raises ModelError for a folder that is no such
    drafter, OutputError for one that cannot be written.
    """
    path, home = Path(source) / WEIGHTS, Path(to)
    try:
        entries, raw = tensor_entries(path), np.memmap(path, np.uint8, "r")
        output = next((name for name in _OUTPUTS if name in entries), _OUTPUTS[0])
        wanted = {CENTROIDS: _FLOATS, output: _FLOATS, ORDERING: _INTEGERS}
        for name, types in wanted.items():
            if name not in entries or entries[name].dtype not in types:
                found = entries[name].dtype if name in entries else "missing"
                raise ModelError(f"{path}: tensor {name!r} is {found}; a drafter has it as {', '.join(types)}.")
        views = {name: entries[name].view(raw) for name in wanted}
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read as safetensors ({error}); give the folder of a drafter.") from error
    floats = {name: BFloat16(views[name]) if entries[name].dtype == "BF16" else views[name] for name in wanted}
    weights = Weights(path, {name: floats[name] for name in (CENTROIDS, output)})
    try:
        (matrix, bias), (centroids, _) = (output_arrays(weights.whole(name), None) for name in (output, CENTROIDS))
    except InputError as error:
        raise ModelError(f"{path}: {error}") from error
    sets = _sets(path, np.asarray(views[ORDERING]), matrix, centroids)
    screen = Screen(centroids, np.zeros(len(centroids), np.float32), *sets)
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write to {home}: {error.strerror}; give another folder.") from error
    with replacing_files(home, HEAD) as staging:
        save_file({"weight": matrix, "bias": bias}, staging / HEAD)
    save_screen(home, screen, matrix, bias, {"method": "drafter"})
    return screen


def export_drafter(head: str | Path, to: str | Path) -> None:
    """Write the screen in the folder of a head as the two tensors of a drafter, to the file `to`.

    Raises ModelError, by name, for a screen that the layout cannot say: whose clusters have a bias, sets of unequal
    sizes, or a token that is in several or in none. Residual mass and fallback test are left out.
    """
    matrix, bias = read_head(Path(head))
    screen = read_screen(Path(head), matrix, bias)
    if screen.bias.any():
        raise ModelError(f"{head}: the clusters have a bias (those of k-means do); a drafter's have none.")
    sizes = np.diff(screen.start)
    if sizes.min() != sizes.max():
        raise ModelError(f"{head}: the sets have {sizes.min()} to {sizes.max()} tokens; a drafter's are of one size.")
    if not np.array_equal(np.sort(screen.token), np.arange(len(bias))):
        raise ModelError(f"{head}: a token is in no set or in several; a drafter has each in one.")
    place = Path(to)
    try:
        with replacing_files(place.parent, place.name) as staging:
            tensors: dict[str, NDArray[Any]] = {CENTROIDS: screen.weight, ORDERING: screen.token.astype(np.int64)}
            save_file(tensors, staging / place.name)
    except OSError as error:
        raise OutputError(f"cannot write {place}: {error.strerror}; give another name.") from error


def _sets(path: Path, ordering: NDArray[Any], matrix: Floats, centroids: Floats) -> tuple[Ids, Ids]:
    """First place of each set and tokens, as Screen has them; raises ModelError for what is no partition."""
    vocab, clusters = len(matrix), len(centroids)
    if centroids.shape[1] != matrix.shape[1]:
        width = matrix.shape[1]
        raise ModelError(f"{path}: {CENTROIDS} has shape {centroids.shape}; it must have the output's width, {width}.")
    if vocab % clusters:
        raise ModelError(f"{path}: {CENTROIDS} has {clusters} rows; they must divide the {vocab} tokens.")
    if ordering.shape != (vocab,) or not np.array_equal(np.sort(ordering), np.arange(vocab)):
        raise ModelError(f"{path}: {ORDERING} must hold each of the {vocab} tokens once.")
    size = vocab // clusters
    tokens = np.sort(ordering.reshape(-1, size), axis=1).ravel().astype(np.int32)
    return np.arange(0, vocab + 1, size, dtype=np.int32), tokens
