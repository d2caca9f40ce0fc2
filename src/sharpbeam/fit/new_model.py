"""A new model folder: made of another program's files, with the evidence for int8, and the preview.

Evidence is how close a model's integer matmuls come to float32. Sentences are translated greedily in float32. Then both
number types are fed these answers, position by position, and their best tokens are compared; the output layer is the
exact one for both. A disagreement is weighed by what float32 thinks of the other token: ties that fall otherwise lose
nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sharpbeam.convert.conversion import convert_model, is_model_folder
from sharpbeam.decoding.forced import feed, padded
from sharpbeam.decoding.inputs import requests_of
from sharpbeam.decoding.loading import LoadedModel, folder_to_fill, load_model, load_weights
from sharpbeam.decoding.loop import beam_search
from sharpbeam.errors import SharpbeamError
from sharpbeam.fit.preview import fit_preview, worth_fitting
from sharpbeam.fit.progress import Listener
from sharpbeam.fit.texts import sentences_or_sample
from sharpbeam.models.interface import Model
from sharpbeam.options.decode import DecodeOptions, MachineOptions
from sharpbeam.options.machine import ComputeType
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.output_layers.suppressed import without
from sharpbeam.scheduling.queue import RequestQueue
from sharpbeam.storage.model_folder import read_config
from sharpbeam.storage.records import Evidence, Precision, save_precision
from sharpbeam.types import Ids, Request

SENTENCES = 100
LONGEST = 64  # tokens of an answer
TYPES: tuple[ComputeType, ...] = ("int8", "int16")  # the first that loses nothing is chosen, or else float32
MOST_LOSS = 0.01  # log probability at each position, at most
SAMPLE, OWN = "sample sentences of the package", "the first of the given text"
BY_HAND = "No preview was fitted: for models of languages or sizes like these `sharpbeam fit preview` does it."


def make_model(files: Path, folder: Path) -> None:
    """Make the model folder `folder`; the model stands without a preview where none can be fitted.

    A model folder of Sharpbeam is copied. Raises ModelError for what is no model.
    """
    if is_model_folder(files):
        shutil.copytree(files, folder)
        read_config(folder)
    else:
        convert_model(files, folder)
        measure_and_fit(folder)


def measure_and_fit(
    folder: Path,
    texts: Sequence[Path] = (),
    sources: Sequence[str] = (),
    *,
    preview: bool = True,
    progress: Listener | None = None,
) -> list[str]:
    """Measure int8 on `sources`, if any, and fit the `preview` to `texts` if that takes seconds.

    Returns lines that say the outcome. The model stands if it fails.
    """
    lines = list[str]()
    try:
        if sources:
            lines.append(f"Number type {check_precision(folder, sources).summary()}.")
    except SharpbeamError as error:
        lines.append(f"Number types were not compared: {error}")
    try:
        if preview:
            lines.append(fit_preview(folder, texts, progress=progress).summary() if worth_fitting(folder) else BY_HAND)
    except SharpbeamError as error:
        lines.append(f"No preview was fitted: {error}")
    return lines


def check_precision(model: str | Path, texts: Sequence[str] = ()) -> Precision:
    """Compare integer matmuls with float32, and write the outcome to the model folder, where "auto" reads it.

    `texts` are source sentences of a translation model, of which the first 100 are taken; without any, the sample
    sentences of the package. Takes seconds. Raises ModelError for a model that cannot be read, InputError for texts
    without a sentence, OutputError for a folder that cannot be written to.
    """
    folder = folder_to_fill(model)
    loaded = load_model(folder, MachineOptions(threads=1, exact=True), "translation")
    lines = sentences_or_sample(loaded, texts, SENTENCES)
    length = min(LONGEST, loaded.options.search.max_length)
    options = loaded.options.changed(beam_size=1, max_length=length, min_length=0)
    requests = requests_of(loaded, lines, options)
    answers = _greedy(loaded, loaded.model, requests, options)
    evidence, best, positions = list[Evidence](), "float32", sum(map(len, answers.values()))
    for kind in TYPES:
        other = load_weights(folder, MachineOptions(threads=1, compute_type=kind))
        same, loss = _compare(loaded.model, other, loaded.exact, requests, answers)
        evidence.append(Evidence(kind, round(same / positions, 5), round(loss / positions, 6)))
        if loss <= MOST_LOSS * positions:
            best = kind
            break
    precision = Precision(best, tuple(evidence), len(requests), positions, OWN if texts else SAMPLE)
    save_precision(folder, precision)
    return precision


def _greedy(loaded: LoadedModel, model: Model, requests: list[Request], options: DecodeOptions) -> dict[int, Ids]:
    """Greedy answers of `model` with the exact layer, by request; with eos where it was reached."""
    answers, layer = {}, without(loaded.exact, loaded.suppressed)
    for index, (best, *_) in beam_search(model, layer, requests, options.search):
        ended = len(best.token_log_probs) > len(best.tokens)
        answers[index] = np.array([*best.tokens, *[model.eos_id] * ended], np.int32)
    return answers


def _compare(
    model: Model, other: Model, layer: RowLayer, requests: list[Request], answers: dict[int, Ids]
) -> tuple[int, float]:
    """At how many positions `other` has the best token of `model`, and the log probability that it loses in all."""
    queue, same, loss = RequestQueue(requests), 0, 0.0
    while batch := queue.take_batch():
        request = np.array([one.index for one in batch], np.int32)
        tokens, length = padded([answers[one.index] for one in batch], model.bos_id)
        runs = model.open(), other.open()
        both = [feed(run.step, run.retain, request, run.admit(batch), tokens, length, model.bos_id) for run in runs]
        for (_, _, hidden), (_, _, near) in zip(*both, strict=True):
            first, second = layer.topk(hidden, 1), layer.topk(near, 1)
            same += int((first.token == second.token).sum())
            loss += float((first.log_prob[:, 0] - layer.log_prob(hidden, second.token[:, 0])).sum())
    return same, loss
