"""The preview of an output layer, fitted to hidden vectors: a balanced basis, and coordinates for each token.

In the balanced basis inner products stay what they are, and the first coordinates hold most of what tells tokens apart.
With S the second moment of the hidden vectors about their mean, W the output matrix without its mean row, and U the
eigenvectors of S^1/2 W'W S^1/2 with eigenvalues l, the basis is l^1/4 U' S^-1/2: hidden vectors and rows of W then have
the same root mean square in each coordinate. Fitting takes seconds, and no labelled text.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sharpbeam.errors import OptionError
from sharpbeam.output_layers.fitted import Preview
from sharpbeam.types import Floats, Ids

Doubles = NDArray[np.float64]
RIDGE = 1e-4  # of the mean eigenvalue, added to the second moment so that it can be inverted
SHARES = (1 / 16, 1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1)  # of the width: coordinates that a token may have
SAMPLES = 512  # hidden vectors that the numbers of coordinates are chosen on
BEST = 10  # for which k they are chosen: candidates of a row in a beam search with 5 hypotheses
PASSED = 12.0  # cost of a byte that is read for one token alone, in bytes that are read for all tokens
TOKEN_BYTES = 16  # read for a token, next to its coordinates
TOKENS = 4096  # computed with in float64 at a time; a whole large matrix would take gigabytes
ROWS = 32  # hidden vectors that are scored at a time


def fit_preview(weight: Floats, bias: Floats, samples: Floats, coordinates: int | None = None) -> Preview:
    """The preview of the output layer `weight` [V, D], `bias` [V], fitted to hidden vectors `samples` [N, D], N >= 1.

    Each token gets the number of `coordinates` for which fewest bytes are read on the samples, if none is given. The
    certified layer's bound holds for every hidden vector; one that is unlike the samples is only slower. Raises
    OptionError for shapes that do not fit.
    """
    width = weight.shape[1]
    if coordinates is not None and not 1 <= coordinates <= width:
        raise OptionError(f"coordinates is {coordinates}; it must be from 1 to the width, {width}.")
    if samples.ndim != 2 or samples.shape[1] != width or len(samples) == 0:
        raise OptionError(f"samples has the shape {list(samples.shape)}; it must be [at least 1, {width}].")
    basis, shift = _balanced(weight, samples)
    if coordinates is not None:
        return Preview(basis, shift, np.full(len(weight), coordinates, np.int32))
    chosen = np.linspace(0, len(samples) - 1, min(SAMPLES, len(samples))).astype(np.intp)
    return Preview(basis, shift, _cheapest(weight, bias, basis, shift, samples[chosen]))


def _balanced(weight: Floats, samples: Floats) -> tuple[Floats, Floats]:
    """The basis [D, D], and the shift [D] that moves the mean of the samples to the origin."""
    width = weight.shape[1]
    mean = samples.mean(axis=0, dtype=np.float64)
    moment = np.zeros((width, width))
    for some in _blocks(len(samples)):
        spread = samples[some] - mean
        moment += spread.T @ spread
    moment /= len(samples)
    centre, square = weight.mean(axis=0, dtype=np.float64), np.zeros_like(moment)
    for some in _blocks(len(weight)):
        rows = weight[some] - centre
        square += rows.T @ rows
    scale = np.trace(moment) / width or 1.0
    sizes, directions = np.linalg.eigh(moment + RIDGE * scale * np.eye(width))
    root, inverse = (directions * np.sqrt(sizes) @ directions.T, directions / np.sqrt(sizes) @ directions.T)
    values, vectors = np.linalg.eigh(root @ square @ root)
    values, vectors = values[::-1], vectors[:, ::-1]
    balance = np.maximum(values, RIDGE**2 * max(values[0], 1e-30)) ** 0.25
    basis = (balance[:, None] * (vectors.T @ inverse)).astype(np.float32)
    return basis, (-basis.astype(np.float64) @ mean).astype(np.float32)


def _cheapest(weight: Floats, bias: Floats, basis: Floats, shift: Floats, samples: Floats) -> Ids:
    """The number of coordinates [V] for which a token costs fewest bytes.

    These are the bytes that all rows read, and those of the rows for which the preview does not rule the token out. The
    quantization of the preview is left out; it matters little.
    """
    width = weight.shape[1]
    rows, centre, inverted = np.empty_like(weight), weight.mean(axis=0), basis.T.astype(np.float64)
    for some in _blocks(len(weight)):
        rows[some] = np.linalg.solve(inverted, (weight[some] - centre).T.astype(np.float64)).T
    constant = bias - rows @ shift
    choices = sorted({min(width, max(4, -(-round(share * width) // 4) * 4)) for share in SHARES})
    left_out = [np.linalg.norm(rows[:, m:], axis=1) for m in choices]
    passed = np.zeros((len(choices), len(weight)))
    best = min(BEST, len(weight))
    for first in range(0, len(samples), ROWS):
        hidden = samples[first : first + ROWS] @ basis.T + shift
        logits = hidden @ rows.T + constant
        bar = np.partition(logits, -best, axis=1)[:, -best, None]
        for i, m in enumerate(choices):
            preview = hidden[:, :m] @ rows[:, :m].T + constant
            beyond = np.linalg.norm(hidden[:, m:], axis=1)
            passed[i] += (preview + beyond[:, None] * left_out[i] >= bar).sum(axis=0)
    passed /= len(samples)
    cost = np.array(choices)[:, None] + PASSED * (width + TOKEN_BYTES) * passed
    chosen: Ids = np.array(choices, np.int32)[cost.argmin(axis=0)]
    return chosen


def _blocks(count: int) -> Iterator[slice]:
    return (slice(first, min(first + TOKENS, count)) for first in range(0, count, TOKENS))
