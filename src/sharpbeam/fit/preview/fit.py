"""The preview of an output layer, fitted to hidden vectors in seconds, without labelled text.

With S the second moment of the hidden vectors about their mean, W the output matrix without its mean row, and U the
eigenvectors of S^1/2 W'W S^1/2, the basis is diag(r) U' S^-1/2 with r the root mean square of each coordinate of W's
rows: all coordinates of tokens are of one size, so that 4 bits lose the same of each. How many coordinates a token
needs is what costs least on held-out hidden vectors.
"""

from __future__ import annotations

import time
from dataclasses import replace
from statistics import geometric_mean, median

import numpy as np
from numpy.typing import NDArray

from sharpbeam.errors import OptionError
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.preview import Normalizer, Preview, PreviewLayer
from sharpbeam.output_layers.scan import ScanLayer
from sharpbeam.types import Floats, Ids

Doubles = NDArray[np.float64]
RIDGE = 0.02  # of the mean eigenvalue, added to the second moment: few vectors say little of its smallest directions
SHARES = (1 / 16, 1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 1)  # of the width: coordinates of a token
CLIPS = (1.0, 0.84, 0.68)  # of the largest coordinate: scales that are tried, as the core tries them
TIMED = 50  # steps that gains are measured on
BATCH = 8  # requests
HELD_OUT = 384  # hidden vectors that coordinates and normalizer are chosen on
ROWS = 32  # of them, that are scored at a time
PASSED = 1500.0  # cost of a token that is looked up alone, in bytes that are read for all tokens
TOKEN_BYTES = 8  # read for a token, next to its coordinates
MARGIN = 1.1  # of the largest share of the bound that was needed
BELOW = 3.0  # the best logit: what a beam can use, about
NEAR = 10  # best tokens of a row for which that share is taken
SHARES_OF_TRUST = (0.25, 0.5, 1.0)  # by which tokens of a normalizer are looked for
DEPTHS = (3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0)  # below the best token: of exact logits
LOOKED_UP, SUMMED = (0.0, 2.0), 2.0  # so much deeper tokens are looked up, and panels are taken token by token
EXACT = 6  # times what a token costs that is looked up by all coordinates
MOST_FACTOR, MOST_COST = 1e3, 0.5  # of `near` and `far`; of the tokens, for vectors that leave much to guess
TOLERANCES = (3e-3, 1.5e-4)  # of normalizers, below fidelity 1 and proven: the cheapest with less error is taken
ASKED = 0.03  # share of rows that a beam asks for exact sums of, over sentences of news, at most
SURE = 5e-4  # error of normalizers with which a beam seldom has to ask for exact ones
STATED, SAFETY = 1500, 2.0  # vectors that a row's stated error is measured on, and times the largest that is stated
SPREADS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)  # of stated errors
LEAST_REST = 2.0**-12  # of a sum, next to its best token, as the core has it


def find_preview(weight: Floats, bias: Floats, samples: Floats) -> Preview:
    """The preview of the output layer `weight` [V, D], `bias` [V], fitted to hidden vectors `samples` [N, D].

    A third of the samples, at most 384, are held out for choices. Raises OptionError unless N >= 2.
    """
    width = weight.shape[1]
    if samples.ndim != 2 or samples.shape[1] != width or len(samples) < 2:
        raise OptionError(f"samples has the shape {list(samples.shape)}; it must be [at least 2, {width}].")
    held = np.unique(np.linspace(0, len(samples) - 1, min(HELD_OUT, max(1, len(samples) // 3))).astype(np.intp))
    rest = np.delete(np.arange(len(samples)), held)
    basis, shift, balance = _balanced(weight, samples[rest])
    few, coordinates, trust, sizes = _cheapest(weight, bias, basis, shift, balance, samples[held])
    preview = Preview(basis, shift, balance, coordinates, few, trust, sizes)
    some = np.linspace(0, len(samples) - 1, min(STATED, len(samples))).astype(np.intp)
    return replace(preview, normalizers=_normalizers(weight, bias, preview, samples[held[::2]], samples[some]))


def gains_of(weight: Floats, bias: Floats, preview: Preview, samples: Floats) -> dict[str, float]:
    """Times that the preview is faster than a scan on this machine.

    "greedy" is greedy search without scores, which needs no normalizers, "scores" the same with scores, "beam" a beam
    of 5. The mean of a single request and of a batch, since the layer is chosen before requests come. No "beam" where
    the normalizers are too far off: a beam would ask for exact ones too often.
    """
    proven, scan = PreviewLayer.build(weight, bias, preview), ScanLayer.build(weight, bias)
    sums = ASKED * _row_time(ExactLayer.build(weight, bias), samples)

    def gain(width: int, *, normalize: bool = True) -> float:
        asked = sums if width > 1 else 0.0
        return geometric_mean(
            step_gain(proven, scan, samples, width, requests, normalize=normalize, asked=asked)
            for requests in (1, BATCH)
        )

    sure = preview.normalizers[1].error <= SURE
    return {"greedy": gain(1, normalize=False), "scores": gain(1)} | ({"beam": gain(5)} if sure else {})


def step_gain(
    layer: PreviewLayer,
    scan: ScanLayer,
    samples: Floats,
    width: int,
    requests: int = 1,
    *,
    normalize: bool = True,
    asked: float = 0.0,
) -> float:
    """Times that `layer` is faster than `scan` for a step of `requests` beams of `width` rows of `samples` [N, D].

    By the thread's processor time, medians of interleaved calls. Without `normalize` both find tokens only. `asked`
    nanoseconds a row are added to the time of `layer`: for the exact sums that a search asks for.
    """
    rows = width * requests
    score, request = np.tile(-0.5 * np.arange(width), requests), np.arange(requests).repeat(width).astype(np.int32)
    k = min(1 if width == 1 else 2 * width, layer.vocab_size)
    spent: tuple[list[int], list[int]] = [], []
    for step in range(TIMED):
        at = (step * rows) % max(1, len(samples) - rows)
        hidden = np.ascontiguousarray(np.resize(samples[at : at + rows], (rows, samples.shape[1])))
        began = time.thread_time_ns()
        scan.native.topk_details(hidden, k, normalize)
        between = time.thread_time_ns()
        layer.native.topk_details(hidden, k, normalize, request, score, width)
        spent[0].append(between - began)
        spent[1].append(time.thread_time_ns() - between)
    return median(spent[0]) / max(1.0, median(spent[1]) + asked * rows)


def _row_time(exact: ExactLayer, samples: Floats) -> float:
    """Nanoseconds that an exact sum takes, of those that are asked for together."""
    spent, some = [], np.ascontiguousarray(np.resize(samples, (BATCH, samples.shape[1])))
    for _ in range(5):
        began = time.thread_time_ns()
        exact.topk(some, 1)
        spent.append(time.thread_time_ns() - began)
    return median(spent) / BATCH


def _balanced(weight: Floats, samples: Floats) -> tuple[Floats, Floats, Floats]:
    """The basis [D, D], the shift [D] that moves the mean of the samples to the origin, and the balance [D]."""
    width = weight.shape[1]
    mean = samples.mean(axis=0, dtype=np.float64)
    spread = (samples - mean.astype(np.float32)).astype(np.float32)
    moment = (spread.T @ spread).astype(np.float64) / len(samples)
    centered = weight - weight.mean(axis=0)
    square = (centered.T @ centered).astype(np.float64)
    moment += (RIDGE * np.trace(moment) / width or 1.0) * np.eye(width)
    sizes, directions = np.linalg.eigh(moment)
    root, inverse = (directions * np.sqrt(sizes) @ directions.T, directions / np.sqrt(sizes) @ directions.T)
    values, vectors = np.linalg.eigh(root @ square @ root)
    values, vectors = values[::-1], vectors[:, ::-1]
    size = np.sqrt(np.maximum(values, 1e-10 * max(values[0], 1e-30)) / len(weight))
    basis = (size[:, None] * (vectors.T @ inverse)).astype(np.float32)
    # Tokens have coordinates of size 1, hidden vectors of the size of `size`.
    balance = (1.0 / np.sqrt(size)).astype(np.float32)
    return basis, (-basis.astype(np.float64) @ mean).astype(np.float32), balance


def _quantized(head: Floats) -> Floats:
    """Rows [n, m] in 4 bits: multiples of a scale from -8 to 7, the scale with the least error."""
    largest = np.take_along_axis(head, np.abs(head).argmax(axis=1)[:, None], axis=1)
    best, error = np.zeros_like(head), np.full(len(head), np.inf, np.float32)
    for clip in CLIPS:
        scale = -largest * np.float32(clip / 8)
        scale[scale == 0] = 1.0
        found = np.clip(np.round(head / scale), -8, 7) * scale
        lost = ((head - found) ** 2).sum(axis=1)
        better = lost < error
        best[better], error[better] = found[better], lost[better]
    return best


def _cheapest(
    weight: Floats, bias: Floats, basis: Floats, shift: Floats, balance: Floats, samples: Floats
) -> tuple[Ids, Ids, Floats, Ids]:
    """Coordinates [V] for which a token costs fewest bytes, below fidelity 1 and proven; trust and sizes of choices.

    The cost is the bytes that all rows read, and those of the rows for which the preview does not rule the token out.
    """
    width = weight.shape[1]
    center = weight.mean(axis=0)
    rows = np.linalg.solve(basis.T.astype(np.float64), (weight - center).T.astype(np.float64)).T.astype(np.float32)
    constant = bias - rows @ shift
    most = -(-width // 8) * 8
    choices = sorted({min(most, max(8, -(-round(share * width) // 8) * 8)) for share in SHARES})
    previews = [_quantized(rows[:, :m]) for m in choices]
    lost = [np.linalg.norm((rows[:, :m] - p) / balance[:m], axis=1) for m, p in zip(choices, previews, strict=True)]
    left_out = [np.linalg.norm(rows[:, m:] / balance[m:], axis=1) for m in choices]
    hidden = samples @ basis.T + shift
    trust = _trust(rows, constant, hidden, balance, choices, previews, lost, left_out)
    passed = _passed(hidden, rows, constant, choices, previews, lost, left_out, balance, trust)
    cost = np.array(choices)[:, None] / 2 + TOKEN_BYTES + PASSED * (passed + 0.3 / len(samples))
    sizes = np.array(choices, np.int32)
    few, all_of_them = sizes[cost.argmin(axis=1)]
    return few, all_of_them, trust, sizes


def _passed(
    samples: Floats,
    rows: Floats,
    constant: Floats,
    choices: list[int],
    previews: list[Floats],
    lost: list[Floats],
    left_out: list[Floats],
    balance: Floats,
    trust: Floats,
) -> Doubles:
    """The share of `samples` [N, D] for which a token is not ruled out, [2, choices, V]: below fidelity 1, proven."""
    passed = np.zeros((2, len(choices), len(rows)))
    for first in range(0, len(samples), ROWS):
        hidden = samples[first : first + ROWS]
        bar = (hidden @ rows.T + constant).max(axis=1)[:, None] - BELOW
        for i, m in enumerate(choices):
            preview = hidden[:, :m] @ previews[i].T + constant
            bound = np.linalg.norm(hidden[:, :m] * balance[:m], axis=1)[:, None] * lost[i]
            bound += np.linalg.norm(hidden[:, m:] * balance[m:], axis=1)[:, None] * left_out[i]
            passed[0, i] += (preview + trust[i] * bound >= bar).sum(axis=0)
            passed[1, i] += (preview + bound >= bar).sum(axis=0)
    return passed / len(samples)


def _trust(
    rows: Floats,
    constant: Floats,
    hidden: Floats,
    balance: Floats,
    choices: list[int],
    previews: list[Floats],
    lost: list[Floats],
    left_out: list[Floats],
) -> Floats:
    """For each choice the largest share of the bound by which the preview of a row's best tokens was too small.

    A tenth more, so that a row that is a little unlike all samples does not miss a token.
    """
    most = np.zeros(len(choices), np.float32)
    best = min(NEAR, len(rows))
    for h in hidden:
        logits = rows @ h + constant
        tokens = np.argpartition(-logits, best - 1)[:best]
        for i, m in enumerate(choices):
            short = logits[tokens] - (previews[i][tokens] @ h[:m] + constant[tokens])
            bound = (
                np.linalg.norm(h[:m] * balance[:m]) * lost[i][tokens]
                + np.linalg.norm(h[m:] * balance[m:]) * left_out[i][tokens]
            )
            most[i] = max(most[i], float((short / np.maximum(bound, 1e-20)).max()))
    trusts: Floats = np.clip(MARGIN * most, 0.05, 1.0)
    return trusts


def _normalizers(
    weight: Floats, bias: Floats, preview: Preview, samples: Floats, more: Floats
) -> tuple[Normalizer, Normalizer]:
    """Below fidelity 1, and of the proven layer: that with fewest tokens to look up whose error on `samples` is small.

    Where none is within its tolerance, the one with the least root mean square error of those that cost less than a
    scan. What the proven one states is
    measured on `more`.
    """
    exact = ExactLayer.build(weight, bias)
    samples, more = np.ascontiguousarray(samples), np.ascontiguousarray(more)
    _, wanted = _exact_totals(exact, samples)
    found: list[Normalizer] = []
    for measured, tolerance in zip((True, False), TOLERANCES, strict=True):
        layer = PreviewLayer.build(weight, bias, preview, measured=measured)
        tried = []
        for share in SHARES_OF_TRUST:
            for further in LOOKED_UP:
                for depth in DEPTHS:
                    n = Normalizer(share, depth, depth + further, depth + further + SUMMED)
                    choice, cost = _calibrated(layer, samples, wanted, n)
                    tried.append((choice, cost))
                    if choice.error < tolerance:
                        break  # the next ones cost more
        few = [one for one in tried if one[1] < MOST_COST * len(samples) * len(weight)] or tried
        good = [one for one in few if one[0].error < tolerance]
        best = min(good, key=lambda one: one[1]) if good else min(few, key=lambda one: one[0].error)
        found.append(best[0])
    return found[0], _stated(layer, more, *_exact_totals(exact, more), found[1])


def _exact_totals(exact: ExactLayer, samples: Floats) -> tuple[Doubles, Doubles]:
    """The best logits [N] and the normalizers [N]."""
    best = exact.unnormalized().topk(samples, 1).log_prob[:, 0].astype(np.float64)
    return best, best - exact.topk(samples, 1).log_prob[:, 0]


def _stated(layer: PreviewLayer, samples: Floats, best: Doubles, wanted: Doubles, n: Normalizer) -> Normalizer:
    """`n` with the errors that it states: `SAFETY` times what none of `samples` exceeds, with the least squares.

    Searches add the squares of what rows state.
    """
    known, total = (layer.totals(samples, each)[0].astype(np.float64) for each in (replace(n, near=0.0, far=0.0), n))
    share, error = 1.0 - np.exp(known - total), np.abs(total - wanted)
    rest = (np.maximum(0.0, -np.expm1(best - total)) + LEAST_REST) ** 0.25
    stated = [(spread, max(1e-6, float(((error - spread * share) / rest).max()))) for spread in SPREADS]
    spread, unsure = min(stated, key=lambda one: float(np.mean((one[0] * share + one[1] * rest) ** 2)))
    return replace(n, spread=SAFETY * spread, unsure=SAFETY * unsure)


def _calibrated(layer: PreviewLayer, samples: Floats, wanted: Doubles, choice: Normalizer) -> tuple[Normalizer, int]:
    """`choice` with the factors `near` and `far` of least squares, and its cost."""
    sums, cost = [], 0
    for near, far in ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0)):
        total, looked_up, exact = layer.totals(samples, replace(choice, near=near, far=far))
        cost = looked_up + EXACT * exact
        sums.append(np.exp(total.astype(np.float64) - wanted))  # as a share of the true sum
    parts = np.stack([sums[1] - sums[0], sums[2] - sums[0]], axis=1)
    factors = np.clip(np.linalg.lstsq(parts, 1.0 - sums[0], rcond=None)[0], 0.0, MOST_FACTOR)
    error = np.log(np.maximum(sums[0] + parts @ factors, 1e-30))
    near, far = factors.tolist()
    return replace(choice, near=near, far=far, error=float(np.sqrt(np.mean(error**2)))), cost
