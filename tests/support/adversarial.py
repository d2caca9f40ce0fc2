"""Output layers and hidden vectors that are hard on bounds, and what an exact top k of them must be."""

from __future__ import annotations

import numpy as np
from reference import kernels as reference
from scipy.special import logsumexp

from sharpbeam import _core
from sharpbeam.types import Floats, Ids

NEAR = 0.2  # nats, of normalizers: near duplicates, whose errors are alike, have .1, others a tenth of that


def normal(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def layers(seed: int, vocab: int, width: int, rows: int) -> dict[str, tuple[Floats, Floats, Floats]]:
    """Weight, bias and hidden vectors by the name of what is hard about them."""
    weight, bias, hidden = normal(seed, vocab, width), normal(seed + 1, vocab), normal(seed + 2, rows, width)
    none = np.zeros(vocab, np.float32)
    whole = np.random.default_rng(seed).integers(-2, 3, (vocab, width)).astype(np.float32)
    one_hot = np.eye(width, dtype=np.float32)[np.arange(rows) % width]
    huge = bias.copy()
    huge[:: max(1, vocab // 7)] = np.resize(np.float32([1e6, -1e9, 3e4]), len(huge[:: max(1, vocab // 7)]))
    outlier = weight.copy()
    outlier[:, 0] *= 300
    long_row = weight.copy()
    long_row[vocab // 2] *= 1e6
    missed, rows_missed = weight.copy(), hidden.copy()  # a likely token by a coordinate that is 0 in int8
    missed[:, -1] *= np.float32(0.01)
    missed[vocab // 2, 0] = 3000
    rows_missed[:, -1] = 10
    rows_missed[:, 0] = 0.039
    # The likely ones and hidden vectors are exact in int8, all other tokens lose alike.
    eighths, even, steps = whole / 256, np.zeros_like(bias), np.minimum(np.round(np.abs(hidden) * 32), 126)
    eighths[vocab // 8 :] += np.float32(0.45 / 256)
    eighths[:, -1], steps[:, -1] = 127 / 256, 127
    even[: vocab // 8] = 3
    low_rank = (normal(seed, vocab, 2) @ normal(seed + 3, 2, width)).astype(np.float32)
    return {
        "normal": (weight, bias, hidden),
        "times 100": (weight, bias, hidden * 100),
        "times 1e-6": (weight, bias, hidden * np.float32(1e-6)),
        "weights times 100": (weight * 100, bias, hidden),
        "ties": (whole, np.round(bias), np.round(hidden)),
        "duplicates": (np.resize(weight[: vocab // 5 + 1], (vocab, width)), none, hidden),
        "near duplicates": (np.resize(weight[:3], (vocab, width)) + weight * np.float32(1e-6), none, hidden),
        "zero weights": (np.zeros_like(weight), bias, hidden),
        "zero hidden": (weight, bias, np.zeros_like(hidden)),
        "all zero": (np.zeros_like(weight), none, np.zeros_like(hidden)),
        "one hot": (weight, bias, one_hot),
        "huge biases": (weight, huge, hidden),
        "an outlier column": (outlier, bias, hidden),
        "a long row": (long_row, bias, hidden),
        "a long row that is missed": (missed, bias, rows_missed),
        "likely ones are exact": (eighths, even, steps),
        "a mean row": (weight + 3, bias, hidden * np.float32(1e4)),
        "low rank": (low_rank, bias, hidden),
        "the words themselves": (weight, bias, np.resize(weight, (rows, width)) * 3),
        "denormal": (weight, bias * np.float32(1e-30), hidden * np.float32(1e-30)),
        "too large to bound": (weight, bias, hidden * np.float32(1e15)),
    }


def check_topk(layer: tuple[Floats, Floats, Floats], k: int, got: tuple[Floats, Ids], total: Floats) -> None:
    """Assert that `got` is the k best by exact logit - `total` [R], to the last byte, equal ones by lower id.

    Log probabilities are at most 0, and totals are near to the exact ones.
    """
    weight, bias, hidden = layer
    with np.errstate(over="ignore"):
        logits = _core.Linear(weight, bias).apply(hidden)
        log_prob = logits - total[:, None]
        exact = logsumexp(logits, axis=1)
    assert np.array_equal(np.isnan(total), np.isnan(exact))
    assert (np.abs(total - exact) <= NEAR + 1e-6 * np.abs(exact))[np.isfinite(exact)].all()
    token = reference.top_k(log_prob, k)
    assert got[1].tolist() == token.tolist()
    assert got[0].tobytes() == np.minimum(np.take_along_axis(log_prob, token, axis=1), 0.0).tobytes()
