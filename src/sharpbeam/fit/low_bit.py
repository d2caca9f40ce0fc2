"""The low-bit preview of an output layer, fitted to hidden vectors in seconds, without labelled text.

With S the second moment of the hidden vectors about their mean, W the output matrix without its mean row, and U the
eigenvectors of S^1/2 W'W S^1/2, the basis is diag(r) U' S^-1/2 with r the root mean square of each coordinate of W's
rows: all coordinates of tokens are of one size, so that 4 bits lose the same of each. How many coordinates a token
needs is what costs least on held-out hidden vectors.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sharpbeam.errors import OptionError
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.proven import LowBit, Normaliser, ProvenLayer
from sharpbeam.types import Floats, Ids

Doubles = NDArray[np.float64]
RIDGE = 0.02  # of the mean eigenvalue, added to the second moment: few vectors say little of its smallest directions
SHARES = (1 / 16, 1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 1)  # of the width: coordinates of a token
CLIPS = (1.0, 0.84, 0.68)  # of the largest coordinate: scales that are tried, as the core tries them
HELD_OUT = 384  # hidden vectors that coordinates and normaliser are chosen on
ROWS = 32  # of them, that are scored at a time
PASSED = 5.0  # cost of a byte that is read for one token alone, in bytes that are read for all tokens
TOKEN_BYTES = 8  # read for a token, next to its coordinates
MARGIN = 1.1  # of the largest share of the bound that was needed
BELOW = 3.0  # the best logit: what a beam can use, about
NEAR = 10  # best tokens of a row for which that share is taken
NORMALISERS = ((3.0, 6.0), (5.0, 8.0), (5.0, 11.0), (6.0, 14.0), (8.0, 18.0))  # refined and summed, cheapest first
FAR = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
TOLERANCE = 2e-3  # of a normaliser: the cheapest one with a smaller error is taken


def fit_low_bit(weight: Floats, bias: Floats, samples: Floats) -> LowBit:
    """The low-bit preview of the output layer `weight` [V, D], `bias` [V], fitted to hidden vectors `samples` [N, D].

    A third of the samples, at most 384, are held out for choices. Raises OptionError unless N >= 2.
    """
    width = weight.shape[1]
    if samples.ndim != 2 or samples.shape[1] != width or len(samples) < 2:
        raise OptionError(f"samples has the shape {list(samples.shape)}; it must be [at least 2, {width}].")
    held = np.unique(np.linspace(0, len(samples) - 1, min(HELD_OUT, max(1, len(samples) // 3))).astype(np.intp))
    rest = np.delete(np.arange(len(samples)), held)
    basis, shift, balance = _balanced(weight, samples[rest])
    few, coordinates, trust, sizes = _cheapest(weight, bias, basis, shift, balance, samples[held])
    preview = LowBit(basis, shift, balance, coordinates, few, trust, sizes)
    normaliser, error = _normaliser(weight, bias, preview, samples[held])
    return LowBit(basis, shift, balance, coordinates, few, trust, sizes, normaliser, error)


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
    """Coordinates [V] for which a token costs fewest bytes, calibrated and proven; trust and sizes of all choices.

    The cost is the bytes that all rows read, and those of the rows for which the preview does not rule the token out.
    """
    width = weight.shape[1]
    center = weight.mean(axis=0)
    rows = np.linalg.solve(basis.T.astype(np.float64), (weight - center).T.astype(np.float64)).T.astype(np.float32)
    constant = bias - rows @ shift
    most = -(-width // 8) * 8
    choices = sorted({min(most, max(8, -(-round(share * width) // 8) * 8)) for share in SHARES})
    previews = [_quantized(rows[:, :m]) for m in choices]
    lost = [np.linalg.norm(rows[:, :m] - p, axis=1) for m, p in zip(choices, previews, strict=True)]
    left_out = [np.linalg.norm(rows[:, m:] / balance[m:], axis=1) for m in choices]
    hidden = samples @ basis.T + shift
    trust = _trust(rows, constant, hidden, balance, choices, previews, lost, left_out)
    passed = _passed(hidden, rows, constant, choices, previews, lost, left_out, balance, trust)
    cost = np.array(choices)[:, None] / 2 + TOKEN_BYTES + PASSED * width * (passed + 0.3 / len(samples))
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
    """The share of `samples` [N, D] for which a token is not ruled out, [2, choices, V]: calibrated, proven."""
    passed = np.zeros((2, len(choices), len(rows)))
    for first in range(0, len(samples), ROWS):
        hidden = samples[first : first + ROWS]
        bar = (hidden @ rows.T + constant).max(axis=1)[:, None] - BELOW
        for i, m in enumerate(choices):
            preview = hidden[:, :m] @ previews[i].T + constant
            bound = np.linalg.norm(hidden[:, :m], axis=1)[:, None] * lost[i]
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
            bound = np.linalg.norm(h[:m]) * lost[i][tokens] + np.linalg.norm(h[m:] * balance[m:]) * left_out[i][tokens]
            most[i] = max(most[i], float((short / np.maximum(bound, 1e-20)).max()))
    trusts: Floats = np.clip(MARGIN * most, 0.05, 1.0)
    return trusts


def _normaliser(weight: Floats, bias: Floats, preview: LowBit, samples: Floats) -> tuple[Normaliser, float]:
    """The cheapest normaliser whose root mean square error on `samples` is below TOLERANCE, or the best one."""
    samples = np.ascontiguousarray(samples)
    exact = ExactLayer.build(weight, bias)
    first = exact.topk(samples, 1)
    wanted = exact.unnormalised().log_prob(samples, first.token[:, 0]) - first.log_prob[:, 0]
    layer = ProvenLayer.build(weight, bias, preview, calibrated=True)
    best, least = Normaliser(), np.inf
    for refined, summed in NORMALISERS:
        for far in FAR:
            choice = Normaliser(refined, summed, 1.0, far)
            found = layer.normalisers(samples, choice)
            error = float(np.sqrt(np.mean((found - wanted) ** 2)))
            if error < least:
                best, least = choice, error
        if least < TOLERANCE:
            break
    return best, least
