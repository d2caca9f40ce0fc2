"""From inner products to distances (Bachrach et al., RecSys 2014, section 3; Neyshabur & Srebro, ICML 2015, section 4).

A word with row w and bias b becomes the point [w; b; sqrt(u^2 - |w|^2 - b^2)], where u is the largest |[w; b]|; a
hidden vector h becomes [h; 1; 0]. All points of words have the length u, so the nearest to that of h is the word with
the largest logit.
"""

from __future__ import annotations

import numpy as np

from sharpbeam.types import Floats


def folded(weight: Floats, bias: Floats) -> Floats:
    """Rows [w; b] [V, D + 1] of the output matrix [V, D] and its bias [V]: their product with [h; 1] is the logit."""
    return np.column_stack([weight, bias]).astype(np.float32)


def folded_vector(h: Floats) -> Floats:
    """[h; 1] for a hidden vector h [D]."""
    return np.append(h, np.float32(1))


def principal(rows: Floats) -> Floats:
    """Orthonormal directions [min(n, D), D] of `rows` [n, D], those first along which the rows are largest.

    The right factor V' of rows = U S V', from the small matrix rows' rows, in double precision.
    """
    _, vectors = np.linalg.eigh(rows.T.astype(np.float64) @ rows)
    return np.ascontiguousarray(vectors[:, ::-1].T[: min(rows.shape)], np.float32)


def words_as_points(weight: Floats, bias: Floats) -> Floats:
    """Points [V, D + 2] of one length, for the output matrix [V, D] and its bias [V]."""
    rows = folded(weight, bias).astype(np.float64)
    squares = (rows**2).sum(axis=1)
    return np.column_stack([rows, np.sqrt(squares.max() - squares)]).astype(np.float32)


def vector_as_point(h: Floats) -> Floats:
    """[h; 1; 0] for a hidden vector h [D]."""
    return np.append(h, np.array([1, 0], np.float32))
