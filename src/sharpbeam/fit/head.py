"""Fitting a screen for the output layer of a model that Sharpbeam does not run, from its hidden vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors.numpy import save_file

from sharpbeam.api.head import HEAD, float_rows, output_arrays
from sharpbeam.errors import InputError, OutputError, computing
from sharpbeam.fit.collect import Collection, OutputMatrix, Records, record_type
from sharpbeam.fit.preview import find_preview
from sharpbeam.fit.progress import Listener, Reporter
from sharpbeam.fit.screen.search import Fitted, facts_of, find_screen
from sharpbeam.options.fit import ScreenOptions
from sharpbeam.options.keywords import ScreenKeywords, Unpack
from sharpbeam.options.schema import changed, require
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.screen import Screens
from sharpbeam.storage.artifacts import FolderArtifacts
from sharpbeam.storage.atomic import replacing_files
from sharpbeam.types import Floats

RUN = 64  # rows that count as one text where no texts are named
ROWS = 512  # that are scored together
LEAST_TEXTS = 4  # some to fit on, one to choose on, one to measure on
PREVIEW_ROWS = 20_000  # for a basis, evenly from all


def fit_head(
    folder: str | Path,
    weight: ArrayLike,
    bias: ArrayLike | None,
    hidden: ArrayLike,
    *,
    text: ArrayLike | None = None,
    options: ScreenOptions | None = None,
    progress: Listener | None = None,
    **keywords: Unpack[ScreenKeywords],
) -> Fitted:
    """Fit a screen and a preview for an output matrix, and write all three to a folder for `sharpbeam.Head.load`.

    `weight` is the matrix [V, D], `bias` [V] or None. `hidden` [N, D] are hidden vectors of real text: 100,000 and more
    for a fidelity of 0.999. All are converted to float32. `text` [N] says which text each vector is from, by number:
    vectors of one text are alike, so a whole text is either fitted on or measured on, and the bound of the fidelity
    counts texts, not vectors. Without it runs of 64 neighbors count as a text. `progress` is called with reports.
    The fields of ScreenOptions may be given by name (`fidelity=0.99`) and change `options`; `beam_size` and `vectors`
    are not used.

    Raises InputError for arrays that do not fit and where no screen reaches the fidelity (nothing is written then),
    OptionError for options that do not and for a method that this installation lacks, OutputError for a folder that
    cannot be written.
    """
    output = OutputMatrix(*output_arrays(weight, bias))
    vectors = float_rows(hidden, output.weight.shape[1])
    require(options is None or isinstance(options, ScreenOptions), "options", options, "a ScreenOptions")
    options = changed(options or ScreenOptions(), keywords, "fit_head")
    options, texts = options.resolved(True, len(output.bias)), _texts(text, len(vectors))
    if not str(folder):
        raise OutputError("folder is empty; give the name of a folder to write the head to.")
    home = Path(folder)
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write to {folder}: {error.strerror}; give another folder.") from error
    records = _records(output, vectors, texts, options.top_k)
    often = np.bincount(records["token"][:, 0], minlength=len(output.bias))
    sample = np.linspace(0, len(vectors) - 1, min(len(vectors), PREVIEW_ROWS)).astype(np.int64)
    with computing(InputError, "fit weight and hidden, which should have values of about 1"):
        fitted = find_screen(Collection([records]), output, int(often.argmax()), options, Reporter(progress))
        preview = find_preview(output.weight, output.bias, vectors[sample])
    if options.fidelity and not fitted.reached:
        bound = fitted.setting.measure.bound
        least = f"it is at least {bound:.5f} here. Give more of `hidden`, or a lower fidelity"
        raise InputError(f"fidelity is {options.fidelity}; {least}; nothing was written.")
    with replacing_files(home, HEAD) as staging:
        save_file({"weight": output.weight, "bias": output.bias}, staging / HEAD)
    artifacts = FolderArtifacts(home, output.weight, output.bias)
    artifacts.save("preview", preview, {})
    artifacts.save("screen", Screens("all", {"": fitted.screen}), facts_of(fitted, options))
    return fitted


def _texts(text: ArrayLike | None, count: int) -> NDArray[np.int32]:
    """The number of the text of each of `count` vectors, from 0."""
    numbers = np.arange(count) // RUN if text is None else np.asarray(text)
    if numbers.shape != (count,) or numbers.dtype.kind not in "iu":
        raise InputError(
            f"text is {numbers.dtype} of shape {list(numbers.shape)}; give {count} whole numbers, one a vector."
        )
    names, numbers = np.unique(numbers, return_inverse=True)
    allowed = f"{LEAST_TEXTS} or more; {RUN} vectors count as one without `text`"
    require(len(names) >= LEAST_TEXTS, "texts of hidden", len(names), allowed)
    return numbers.astype(np.int32)


def _records(output: OutputMatrix, vectors: Floats, text: NDArray[np.int32], k: int) -> Records:
    exact = ExactLayer.build(output.weight, output.bias)
    records = np.empty(len(vectors), record_type(vectors.shape[1], k))
    records["sentence"], records["step"], records["hidden"] = text, np.arange(len(vectors)), vectors
    records["floor"] = -np.inf
    for first in range(0, len(vectors), ROWS):
        top = exact.topk(vectors[first : first + ROWS], k)
        records["token"][first : first + ROWS], records["log_prob"][first : first + ROWS] = top.token, top.log_prob
    return records
