"""The preview of an output layer, fitted to hidden vectors in seconds, without labelled text.

With S the second moment of the hidden vectors about their mean, W the output matrix without its mean row, and U the
eigenvectors of S^1/2 W'W S^1/2, hidden vectors have the coordinates U' S^-1/2 h, and rows U' S^1/2 w. The bits of all
codes are dealt to coordinates as rate-distortion theory has it, half the logarithm of the variance, and neighbours
with four bits altogether make a group; k-means finds its 16 words.

Rounding shrinks a token: the words are nearer to the mean than it is, by just what a row that agrees with the token
would see. A scale for each token, its square over its product with its words, makes the error independent of that.
Rows that a token is the best of are unlike others: errors there are measured, and widen all deviations if need be.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import geometric_mean, median

import numpy as np
from numpy.typing import NDArray

from sharpbeam.decoding.languages import LanguageTags
from sharpbeam.decoding.loading import find_model, folder_to_fill, load_model, task_of
from sharpbeam.decoding.loop import beam_search
from sharpbeam.errors import InputError, ModelError, OptionError, computing
from sharpbeam.fit.collect import Collector, collect_rows, distinct_lines
from sharpbeam.fit.progress import Listener, Reporter
from sharpbeam.fit.texts import Texts, texts_or_sample
from sharpbeam.models.registry import architecture_of
from sharpbeam.options.decode import MachineOptions, SearchOptions
from sharpbeam.options.schema import require
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.interface import OutputLayer
from sharpbeam.output_layers.preview import DEVIATIONS, LARGEST, WORDS, Normalizer, Preview, PreviewLayer
from sharpbeam.output_layers.scan import ScanLayer
from sharpbeam.output_layers.suppressed import without
from sharpbeam.storage.model_folder import read_config
from sharpbeam.text.sample import crossed
from sharpbeam.types import Floats, Ids

Doubles = NDArray[np.float64]
Places = NDArray[np.intp]
RIDGE = 0.1  # of the mean eigenvalue, added to the second moment: few vectors say little of its smallest directions
SHARE = 8 / 3  # coordinates for a code, on average: with 4 bits a fifth of int8's bytes
GROUP, MOST_CODES = 8, 2048  # codes that share a range, and of a token: kernels/table.h
BITS = 4.0  # of a code
TRAINED, ROUNDS = 4096, 8  # rows that words are found on, and rounds of k-means
MOMENT, AT_ONCE = 65_536, 8192  # rows that the matrix' second moment is taken of, and that are encoded together
MOST_SCALE = 4.0
CALIBRATED = 512  # hidden vectors for the normalizer, and for errors of best tokens
ERRORS = 5.0  # root mean squares of these that the layer's deviations have to be, as they are for most models
LEAST = 16.0  # the least deviation of the layer is their root mean square over this: some tokens have none
DEPTH = 1.0  # of a normalizer's exact tokens
STATED, SAFETY = 0.99, 2.0  # quantile of a normalizer's error, and times that which is stated
LEAST_SHARE = 1e-6  # of the others: float32 has no less
REQUESTS, TIMED, TIMES, SENTENCES = (1, 8), 40, 3, 6  # at a time, steps, times, and sentences, for gains
VECTORS, LEAST_VECTORS = 6000, 100  # hidden vectors that a basis of some hundred coordinates needs; of any fit
FEWEST = VECTORS // 2  # that gains mean something of: with fewer, other text takes many more exact logits
USUAL = 4_000, 40_000  # tokens of a model that `convert` fits a preview for


@dataclass(frozen=True)
class PreviewFit:
    """The outcome of a fit."""

    folder: Path  # the model's, which the preview was written to
    preview: Preview
    vectors: int  # that it was fitted to
    sample: bool  # whether they are of the sample sentences of the package
    gains: Mapping[str, float]  # times that the preview was faster than a scan here, as `gains_of` has them

    def summary(self) -> str:
        """The outcome for people."""
        text = "sample sentences" if self.sample else "the text"
        gains = ", ".join(f"{name} {times:.1f}" for name, times in self.gains.items())
        share = (4 * self.preview.codes.shape[1] + 8) / (self.preview.words.shape[1] + 8)  # with two numbers each
        few = "" if self.vectors >= FEWEST else f" Of under {FEWEST:,} vectors: auto takes scan. Give more text."
        size = sum(file.stat().st_size for file in self.folder.glob("preview.*"))
        return (
            f"{self.folder}: preview fitted to {self.vectors} hidden vectors of {text}; {size:,} bytes.\nIt reads "
            f"{share:.1%} of the bytes of an int8 scan. Times as fast as one here: {gains}.{few}"
        )


def fit_preview(
    model: str | Path,
    text: Texts = (),
    *,
    vectors: int = VECTORS,
    machine: MachineOptions = MachineOptions(),  # noqa: B008 (frozen)
    progress: Listener | None = None,
) -> PreviewFit:
    """Fit the preview of a model's output layer, for `output_layer="preview"`.

    `text` names files with one source sentence a line (.gz too; a language model reads it); those of a multilingual
    model with their direction, as "de-en=news.de". Without text the sample sentences of the package are taken. Takes
    `vectors` hidden vectors, of sentences that are crossed where there are too few, and seconds. Raises OptionError for
    options that do not fit, ModelError for a model, InputError for text and OutputError for a folder that fail.
    """
    require(vectors >= LEAST_VECTORS, "vectors", vectors, f"{LEAST_VECTORS} or more")
    folder, report = folder_to_fill(str(model)), Reporter(progress)
    task = task_of(folder)
    if not text and task == "language":
        raise OptionError("text is empty; a language model needs a file of text to read: --text FILE.")
    loaded = load_model(folder, machine, task)
    weight, bias = loaded.model.output()
    # Rows of a beam are alike: a fifth of them, one a step, gives codes with a smaller error in a fifth of the time.
    with computing(ModelError, f"fit the preview of {folder}"):
        scanned = replace(loaded, exact=ScanLayer.build(weight, bias, machine.isa))  # the same tokens, faster
    texts, parts, timed = texts_or_sample(loaded, text), [], list[str]()
    count = -(-vectors // len(texts))
    for direction, lines in texts:
        sentences = list(islice(distinct_lines(lines), count))
        with report.stage("collecting", count, "vectors") as advance:
            rows = collect_rows(scanned, sentences, count, 1, 1, direction, advance)[1]
        if len(rows) < count and task == "translation":
            rows = collect_rows(scanned, crossed(sentences, -(-count // (len(rows) or 1))), count, 1, 1, direction)[1]
        parts.append(rows["hidden"])
        timed = timed or sentences[:SENTENCES]
    samples = np.ascontiguousarray(np.concatenate(parts), np.float32)
    if len(samples) < LEAST_VECTORS:
        raise InputError(f"the text gives {len(samples)} hidden vectors; it must give {LEAST_VECTORS}: give more text.")
    report.note(f"fitting to {len(samples)} hidden vectors")
    with computing(ModelError, f"fit the preview of {folder}"):
        preview = find_preview(weight, bias, samples)
    layers = PreviewLayer.build(weight, bias, preview, machine.isa), ScanLayer.build(weight, bias, machine.isa)
    gains = gains_of(*layers, samples)
    if task == "translation":
        gains["beam"] = _gain_of_beams(*layers, Collector(loaded, folder, 5, 1, texts[0][0]), timed)
    facts = {"vectors": len(samples), "sample": not text, "gains": gains if len(samples) >= FEWEST else {}}
    facts["directions"] = [direction.languages.scope("direction") for direction, _ in texts]
    loaded.artifacts.save("preview", preview, facts)
    return PreviewFit(folder, preview, len(samples), not text, gains)


def worth_fitting(model: str | Path) -> bool:
    """Whether a preview can be fitted without text in seconds, and may gain: by task, languages and vocabulary."""
    config = read_config(find_model(str(model)))
    alone = architecture_of(config).task == "translation" and not LanguageTags.of(config).tokens
    return alone and USUAL[0] <= config.target_vocab_size <= USUAL[1]


def find_preview(weight: Floats, bias: Floats, samples: Floats) -> Preview:
    """The preview of the output layer `weight` [V, D], `bias` [V], fitted to hidden vectors `samples` [N, D].

    Raises OptionError unless N >= 2, ArithmeticError for values so large that their products exceed 1e12.
    """
    width = weight.shape[1]
    if samples.ndim != 2 or samples.shape[1] != width or len(samples) < 2:
        raise OptionError(f"samples has the shape {list(samples.shape)}; it must be [at least 2, {width}].")
    mean = samples.mean(axis=0, dtype=np.float64)
    center = weight.mean(axis=0, dtype=np.float64).astype(np.float32)
    some = np.linspace(0, len(weight) - 1, min(MOMENT, len(weight))).astype(np.intp)
    parts = (weight[some[at : at + AT_ONCE]] - center for at in range(0, len(some), AT_ONCE))
    square = sum((part.T @ part).astype(np.float64) for part in parts) / len(some)
    to_hidden, to_rows, variances = _coordinates(square, samples - mean.astype(np.float32))
    groups = _groups(variances)
    order, lengths = np.concatenate(groups), np.array([len(group) for group in groups], np.int32)
    basis, to_rows = np.ascontiguousarray(to_hidden[order]), np.ascontiguousarray(to_rows[:, order])
    trained = np.linspace(0, len(weight) - 1, min(TRAINED, len(weight))).astype(np.intp)
    words = _words((weight[trained] - center) @ to_rows, lengths)
    shift = (-basis.astype(np.float64) @ mean).astype(np.float32)
    encoded = _encoded(weight, center, to_rows, words, lengths)
    offset = bias + (weight @ mean.astype(np.float32) - center @ mean.astype(np.float32))
    preview = Preview(basis, shift, center, words, lengths, *encoded[:2], offset, encoded[2])
    held = np.ascontiguousarray(samples[:: max(1, len(samples) // CALIBRATED)], np.float32)
    top = ExactLayer.build(weight, bias).topk(held, 1)
    best = top.token[:, 0]
    logit = np.einsum("nd,nd->n", held, weight[best], dtype=np.float64) + bias[best]
    _, place, count = np.unique(best, return_inverse=True, return_counts=True)  # each token counts once
    error = np.sqrt((np.bincount(place, _errors(preview, held, best, logit) ** 2) / count).mean())
    preview = replace(preview, deviation=preview.deviation * np.float32(max(1.0, ERRORS / DEVIATIONS * error)))
    if not all(np.abs(each).max() <= LARGEST for each in (basis, words, offset, preview.deviation)):
        raise ArithmeticError(f"products of weight and samples exceed {LARGEST:g}")
    return replace(preview, normalizer=_calibrated(weight, bias, preview, held, logit - top.log_prob[:, 0]))


def _coordinates(square: Doubles, spread: Floats) -> tuple[Floats, Floats, Doubles]:
    """The maps [D, D] of centred hidden vectors `spread` [N, D], and of rows; the variance [D] of rows, falling."""
    moment = (spread.T @ spread).astype(np.float64) / len(spread)
    moment += (RIDGE * np.trace(moment) / len(square) or 1.0) * np.eye(len(square))
    sizes, directions = np.linalg.eigh(moment)
    root, inverse = directions * np.sqrt(sizes) @ directions.T, directions / np.sqrt(sizes) @ directions.T
    values, vectors = np.linalg.eigh(root @ square @ root)
    values, vectors = values[::-1], vectors[:, ::-1]
    variances = np.maximum(values / max(float(values[0]), 1e-30), 1e-12)
    return (vectors.T @ inverse).astype(np.float32), (root @ vectors).astype(np.float32), variances


def _groups(variances: Doubles) -> list[Places]:
    """The coordinates of each code, by its share of the bits, in an order that gives each eight a like range."""
    width = len(variances)
    codes = min(width, MOST_CODES, math.ceil(width / (SHARE * GROUP)) * GROUP)
    low, high = np.log2(variances[-1]) - 2 * BITS, np.log2(variances[0])
    for _ in range(60):  # the distortion at which all coordinates need as many bits as there are
        level = (low + high) / 2
        bits = np.clip((np.log2(variances) - level) / 2, 0.0, BITS)
        low, high = (level, high) if bits.sum() > BITS * codes else (low, level)
    total, ends, first = np.cumsum(bits), [], 0
    for code in range(codes):  # as many as have its share of the bits that are left
        before = total[first - 1] if first else 0.0
        share = (total[-1] - before) / (codes - code)
        end = first + 1 + int(np.searchsorted(total[first + 1 :] - before - bits[first + 1 :] / 2, share, "right"))
        first = min(max(end, first + 1), width - (codes - code - 1)) if code < codes - 1 else width
        ends.append(first)
    groups: list[Places] = [np.arange(a, b, dtype=np.intp) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    groups.sort(key=lambda group: -float(variances[group].sum()))
    eighth = codes // GROUP
    if codes % GROUP:
        return groups
    parts = [groups[i * eighth : (i + 1) * eighth][:: 1 if i % 2 == 0 else -1] for i in range(GROUP)]
    return [part[i] for i in range(eighth) for part in parts]


def _words(rows: Floats, lengths: Ids) -> Floats:
    """The words [16, D] of groups of `lengths` coordinates, by k-means over `rows` [N, D]."""
    words = np.zeros((WORDS, rows.shape[1]), np.float32)
    for group in _slices(lengths):
        own = np.ascontiguousarray(rows[:, group])
        best = own[np.argsort(own[:, own.var(axis=0).argmax()], kind="stable")]
        best = np.resize(best, (max(len(best), WORDS), best.shape[1]))
        centers = np.stack([part.mean(axis=0) for part in np.array_split(best, WORDS)])
        for round_ in range(ROUNDS):
            members = (_nearest(own, centers)[:, None] == np.arange(WORDS)).astype(np.float32)
            count = members.sum(axis=0)
            centers = (members.T @ own) / np.maximum(count, 1.0)[:, None]
            empty = count == 0
            if round_ < ROUNDS - 1 and empty.any():  # a word without rows takes one that is far from its own
                far = np.argsort(-((own - centers[members.argmax(axis=1)]) ** 2).sum(axis=1))[: int(empty.sum())]
                centers[np.flatnonzero(empty)[: len(far)]] = own[far]
        words[:, group] = centers
    return words


def _nearest(rows: Floats, words: Floats) -> Places:
    """The nearest of `words` [16, n] to each of `rows` [N, n]; word by word, which NumPy does many rows at a time."""
    scores = words @ rows.T - 0.5 * (words**2).sum(axis=1)[:, None]
    best, nearest = scores[0], np.zeros(len(rows), np.intp)
    for word, score in enumerate(scores[1:], 1):
        np.copyto(nearest, word, where=score > best)
        np.maximum(best, score, out=best)
    return nearest


def _slices(lengths: Ids) -> Iterator[slice]:
    ends = np.cumsum(lengths).tolist()
    return (slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True))


def _encoded(
    weight: Floats, center: Floats, to_rows: Floats, words: Floats, lengths: Ids
) -> tuple[Ids, Floats, Floats]:
    """The codes [V, ceil(M / 8)] of all tokens, their scale [V] and the deviation of what is left [V]."""
    codes = np.zeros((len(weight), -(-len(lengths) // 8)), np.uint32)
    scale, deviation = np.ones(len(weight), np.float32), np.zeros(len(weight), np.float32)
    for first in range(0, len(weight), AT_ONCE):
        some = slice(first, first + AT_ONCE)
        rows = (weight[some] - center).astype(np.float32) @ to_rows
        near = np.empty_like(rows)
        for code, group in enumerate(_slices(lengths)):
            nearest = _nearest(rows[:, group], words[:, group])
            near[:, group] = words[nearest, group]
            codes[some, code // 8] |= nearest.astype(np.uint32) << np.uint32(code % 8 * 4)
        square, product = (rows**2).sum(axis=1), (rows * near).sum(axis=1)
        scale[some] = np.divide(square, product, out=scale[some], where=product > square / MOST_SCALE)
        deviation[some] = np.linalg.norm(rows - scale[some, None] * near, axis=1)
    return codes.view(np.int32), scale, deviation


def _errors(preview: Preview, hidden: Floats, token: Ids, exact: Doubles) -> Doubles:
    """How far off the logit [N] of a token of each row [N, D] is from the `exact` one, in its deviations."""
    codes, g = preview.codes[token].view(np.uint32), hidden @ preview.basis.T + preview.shift
    logit = hidden @ preview.center + preview.offset[token]
    for code, group in enumerate(_slices(preview.lengths)):
        word = codes[:, code // 8] >> np.uint32(code % 8 * 4) & np.uint32(WORDS - 1)
        logit += preview.scale[token] * (preview.words[word, group] * g[:, group]).sum(axis=1)
    least = np.sqrt((preview.deviation**2).mean()) / LEAST
    deviation = np.maximum(preview.deviation[token], least) * np.sqrt((g**2).mean(axis=1))
    return np.asarray((exact - logit) / np.maximum(deviation, 1e-20))


def _calibrated(weight: Floats, bias: Floats, preview: Preview, samples: Floats, true: Doubles) -> Normalizer:
    """The normalizer with the least square error from the `true` ones of `samples` [N, D], and what it states."""
    layer = PreviewLayer.build(weight, bias, preview)
    sums = [
        np.exp(layer.totals(samples, Normalizer(DEPTH, near, far))[0].astype(np.float64) - true)
        for near, far in ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))
    ]  # as shares of the true sums
    parts = np.stack([sums[1] - sums[0], sums[2] - sums[0]], axis=1)
    near, far = np.maximum(np.linalg.lstsq(parts, 1.0 - sums[0], rcond=None)[0], 1e-3).tolist()
    total, share = layer.totals(samples, Normalizer(DEPTH, near, far))
    counts = share > LEAST_SHARE
    error = np.abs(total[counts] - true[counts]) / np.sqrt(share[counts])
    spread = SAFETY * float(np.quantile(error, STATED)) if len(error) else 1.0
    return Normalizer(DEPTH, near, far, spread)


def gains_of(layer: PreviewLayer, scan: ScanLayer, samples: Floats) -> dict[str, float]:
    """Times that steps of the preview are faster than a scan's here, for a single request and a batch.

    "greedy" is a search without normalizers, "scores" one with scores. By processor time, the median of `TIMES`.
    """
    gains = {}
    for name in ("greedy", "scores"):
        times = [[step_times(layer, scan, samples, 1, n, name == "scores") for n in REQUESTS] for _ in range(TIMES)]
        gains[name] = median(geometric_mean(own / max(1.0, other) for own, other in each) for each in times)
    return gains


def _gain_of_beams(layer: PreviewLayer, scan: ScanLayer, collector: Collector, texts: list[str]) -> float:
    """The same of whole translations of `texts` by a beam of 5: how many close calls take exact sums is the model's."""
    loaded, requests = collector.parts, collector.requests(texts)
    options = SearchOptions(beam_size=min(5, layer.vocab_size), max_length=collector.within(SearchOptions.max_length))

    def once(own: OutputLayer, tokens: int) -> int:
        began = time.process_time_ns()
        deque(beam_search(loaded.model, without(own, loaded.suppressed), requests, options, tokens), maxlen=0)
        return time.process_time_ns() - began

    return median(geometric_mean(once(scan, n) / max(1, once(layer, n)) for n in (1, 512)) for _ in range(TIMES))


def _nanoseconds(call: Callable[..., object], *arguments: object) -> int:
    began = time.thread_time_ns()
    call(*arguments)
    return time.thread_time_ns() - began


def step_times(
    layer: PreviewLayer, scan: ScanLayer, samples: Floats, width: int, requests: int, normalize: bool
) -> tuple[float, float]:
    """Nanoseconds that `scan` and `layer` take for a step of `requests` beams of `width` rows of `samples` [N, D].

    Means of interleaved calls: a few rows take most of the time. Without `normalize` both find tokens only.
    """
    rows, k = width * requests, min(1 if width == 1 else 2 * width, layer.vocab_size)
    score, request = np.tile(-0.5 * np.arange(width), requests), np.arange(requests).repeat(width).astype(np.int32)
    spent = np.zeros(2)
    for step in range(TIMED):
        at = (step * rows) % max(1, len(samples) - rows)
        hidden = np.ascontiguousarray(np.resize(samples[at : at + rows], (rows, samples.shape[1])))
        spent[0] += _nanoseconds(scan.native.topk_details, hidden, k, normalize) / TIMED
        spent[1] += _nanoseconds(layer.native.topk_details, hidden, k, normalize, request, score, width) / TIMED
    return spent[0], spent[1]
