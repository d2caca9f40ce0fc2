"""Fitting a screen for the output layer of a model that Quickbeam does not run, from its hidden vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors.numpy import save_file

from quickbeam.engine.head import HEAD, output_arrays
from quickbeam.errors import InputError
from quickbeam.models.fitted import replacing_files
from quickbeam.models.preview_folder import save_preview
from quickbeam.models.screen_folder import save_screen
from quickbeam.options.screen import ScreenOptions
from quickbeam.projections.certified import Preview
from quickbeam.projections.exact import ExactProjection
from quickbeam.train.screen.collect import Collection, Records, record_type
from quickbeam.train.screen.fit import Fitted, Say, facts_of, fit_screen
from quickbeam.train.screen.output import Output
from quickbeam.types import Floats

RUN = 64  # rows that count as one text where no texts are named
ROWS = 512  # that are scored together
PREVIEW_ROWS = 20_000  # for a basis, evenly from all


def fit_head(
    folder: str | Path,
    weight: ArrayLike,
    bias: ArrayLike | None,
    hidden: ArrayLike,
    *,
    text: ArrayLike | None = None,
    options: ScreenOptions = ScreenOptions(),  # noqa: B008 (frozen)
    say: Say = lambda line: None,
) -> Fitted:
    """Fit a screen and a preview for the output matrix [V, D] with bias [V], and write them and it to `folder`.

    `hidden` [N, D] are hidden vectors of real text: 100,000 and more for a fidelity of 0.999. `text` [N] says which
    text each is from, by number: vectors of one text are alike, so texts are either fitted on or measured on, and the
    bound of the fidelity counts them, not vectors. Without it runs of 64 neighbours count as a text. `say` is told of
    each setting. `quickbeam.Head.load(folder)` then answers. Raises InputError for arrays that do not fit,
    OptionError for a method that this installation lacks.
    """
    output = Output(*output_arrays(weight, bias))
    vectors = _vectors(hidden, output.weight.shape[1])
    options = options.resolved(language=True)
    records = _records(output, vectors, _texts(text, len(vectors)), options.top_k)
    often = np.bincount(records["token"][:, 0], minlength=len(output.bias))
    fitted = fit_screen(Collection([records]), output, int(often.argmax()), options, say)
    sample = np.linspace(0, len(vectors) - 1, min(len(vectors), PREVIEW_ROWS)).astype(np.int64)
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    with replacing_files(home, HEAD) as beside:
        save_file({"weight": output.weight, "bias": output.bias}, beside / HEAD)
    preview = Preview.fit(output.weight, output.bias, vectors[sample])
    save_preview(home, preview.arrays(), output.weight, output.bias)
    save_screen(home, fitted.screen, output.weight, output.bias, facts_of(fitted, options))
    return fitted


def _vectors(hidden: ArrayLike, width: int) -> Floats:
    vectors: Floats = np.ascontiguousarray(hidden, np.float32)
    if vectors.ndim != 2 or vectors.shape[1] != width:
        raise InputError(f"hidden has the shape {list(vectors.shape)}; it must be [vectors, {width}].")
    if not np.isfinite(vectors).all():
        raise InputError("hidden has values that are infinite or no numbers; leave such vectors out.")
    return vectors


def _texts(text: ArrayLike | None, count: int) -> NDArray[np.int32]:
    if text is None:
        return np.asarray(np.arange(count) // RUN, np.int32)
    number = np.asarray(text)
    if number.shape != (count,) or number.dtype.kind not in "iu":
        raise InputError(
            f"text is {number.dtype} of shape {list(number.shape)}; give {count} whole numbers, one a vector."
        )
    return np.asarray(np.unique(number, return_inverse=True)[1], np.int32)


def _records(output: Output, vectors: Floats, text: NDArray[np.int32], k: int) -> Records:
    exact = ExactProjection.build(output.weight, output.bias)
    records = np.empty(len(vectors), record_type(vectors.shape[1], k))
    records["sentence"], records["step"], records["hidden"] = text, np.arange(len(vectors)), vectors
    records["floor"] = -np.inf
    for first in range(0, len(vectors), ROWS):
        top = exact.topk(vectors[first : first + ROWS], k)
        records["token"][first : first + ROWS], records["log_prob"][first : first + ROWS] = top.token, top.log_prob
    return records
