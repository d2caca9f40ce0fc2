"""The certified output layer: the exact layer's k best tokens, proven, from a small part of the bytes of a scan.

Hidden vectors and tokens are written in a *balanced* basis, in which inner products stay what they are, and the first
coordinates hold most of what tells tokens apart. All tokens are previewed, in int8, with as many of these as each
needs: rare tokens few, tokens that are often among the best many. A bound on the rest says which of them can be among
the k best; those are compared by int8 numbers of all coordinates, and the few that are left then get exact logits.
csrc/output/preview.h has the proof. The preview is fitted on a sample of hidden vectors, but the bound holds for every
vector.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sharpbeam import _core
from sharpbeam.errors import OptionError
from sharpbeam.output_layers.fitted import Preview
from sharpbeam.output_layers.native import NativeNormalising
from sharpbeam.types import Floats, Ids

Doubles = NDArray[np.float64]
BALANCE = 0.1  # the root of how large the rounding of a hidden vector to bytes is, about
ERROR = 1e-3  # default tolerance of `log_total`
REFINED = 256  # words that `log_total` takes exact logits of
LEVELS = 16  # different numbers of coordinates, at most
AT_ONCE = 4096  # words that are computed with in float64 together; all of a large matrix would take gigabytes


class CertifiedLayer(NativeNormalising[_core.CertifiedLayer]):
    """The exact layer's k best tokens and logits, for every hidden vector, with a normaliser of proven error.

    Where few tokens have nearly all of the mass, the preview proves the normaliser too; elsewhere all tokens take exact
    logits for it, and that costs as much as the exact layer. Without the normaliser nothing does: use it so for greedy
    search, where it changes nothing, and for models that are trained to need none.
    """

    @classmethod
    def build(
        cls,
        weight: Floats,
        bias: Floats,
        preview: Preview,
        isa: str = "auto",
        *,
        tolerance: float = ERROR,
        trust: float = 1.0,
    ) -> CertifiedLayer:
        """Preview the output matrix [V, D] with its bias [V], both float32 and C-contiguous.

        The normaliser is within `tolerance`. `trust` multiplies the bounds of tokens: 1 is proven, tests take less. The
        matrix is shared, and must not be written to afterwards. Raises ValueError for arrays that do not fit, for
        values that are not finite or above 1e12, for a basis that has no inverse, and for an `isa` that this machine
        cannot run.
        """
        rows, centre, rest = _rows(weight, preview)
        levels = _levels(rows, preview.coordinates)
        native = _core.CertifiedLayer(
            weight, bias, preview.basis, preview.shift, centre, rows, *levels, rest, BALANCE, isa, tolerance, trust
        )
        return cls(native)

    def log_total(self, hidden: Floats, tolerance: float = ERROR, refined: int = REFINED) -> tuple[Floats, Floats]:
        """Log-sum-exp of the exact layer's logits, and its proven error, both [R].

        Takes exact logits of `refined` tokens; where that does not prove `tolerance`, of all tokens.
        """
        return self.native.log_total(hidden, min(refined, self.vocab_size), tolerance)

    def left(self, hidden: Floats, k: int) -> Ids:
        """How many tokens [R] the preview does not rule out for each row, so that they are compared again."""
        return self.native.topk_details(hidden, k, False)[3]


def _rows(weight: Floats, preview: Preview) -> tuple[Doubles, Floats, float]:
    """The words in the preview's basis [V, D], their centre [D], and the largest share that the basis leaves over."""
    width = weight.shape[1] if weight.ndim == 2 else 0
    if preview.basis.shape != (width, width) or preview.shift.shape != (width,) or not len(weight):
        raise OptionError(
            f"the preview has a basis of the shape {list(preview.basis.shape)}, but weight is {list(weight.shape)}; "
            f"fit it on this model"
        )
    wanted = preview.coordinates
    if wanted.shape != (len(weight),) or wanted.min() < 1 or wanted.max() > width or len(np.unique(wanted)) > LEVELS:
        raise OptionError(
            f"coordinates has the shape {list(wanted.shape)} and values from {wanted.min()} to "
            f"{wanted.max()}; each of the {len(weight)} words needs one, from 1 to the width, {width}, and at "
            f"most {LEVELS} different ones; fit the preview again"
        )
    centre = weight.mean(axis=0, dtype=np.float64).astype(np.float32)
    basis, largest = preview.basis.astype(np.float64), 0.0
    rows = np.empty(weight.shape)
    for some in _parts(len(weight)):
        words = weight[some].astype(np.float64)
        size = np.linalg.norm(words, axis=1) + np.linalg.norm(centre.astype(np.float64))
        words -= centre
        try:
            rows[some] = np.linalg.solve(basis.T, words.T).T
        except np.linalg.LinAlgError as error:
            raise OptionError(f"the preview's basis cannot be inverted ({error}); fit it again") from None
        rest = np.linalg.norm(words - rows[some] @ basis, axis=1)
        # Rounding of double precision.
        rest += width * 2.0**-51 * np.linalg.norm(basis) * np.linalg.norm(rows[some], axis=1)
        share = np.divide(rest, size, out=np.zeros_like(rest), where=size > 0)
        largest = max(largest, float(share.max()))
    return rows, centre, largest * (1 + 1e-9) + 1e-12


def _levels(rows: Doubles, coordinates: Ids) -> tuple[Ids, Ids, Ids, Doubles, Doubles, Doubles]:
    """The words level by level, those with most coordinates first, and what bounds the errors of a level's previews.

    Word ids [V], first place of each level [L + 1], coordinates [L], sums of squares of what is not previewed [L, D],
    the spectral norm of the other products of that [L], and of what is previewed [L].
    """
    sizes = np.unique(coordinates)[::-1]
    words = [(coordinates == size).nonzero()[0] for size in sizes]
    square = np.zeros((len(sizes), rows.shape[1]))
    mixed, head_norm = np.zeros(len(sizes)), np.zeros(len(sizes))
    for level, (size, ids) in enumerate(zip(sizes.tolist(), words, strict=True)):
        whole = sum((_gram(rows[ids[some]]) for some in _parts(len(ids))), np.zeros((rows.shape[1],) * 2))
        head, product = whole[:size, :size], whole[size:, size:]
        own = np.diag(product)
        square[level, size:] = own * (1 + 1e-9)
        mixed[level] = np.linalg.norm(product - np.diag(own), 2) * (1 + 1e-9) if own.size else 0.0
        head_norm[level] = np.sqrt(np.linalg.norm(head, 2) * (1 + 1e-9))
    start = np.cumsum([0, *map(len, words)]).astype(np.int32)
    return np.concatenate(words).astype(np.int32), start, sizes.astype(np.int32), square, mixed, head_norm


def _parts(count: int) -> Iterator[slice]:
    """Of `count` words, AT_ONCE after AT_ONCE."""
    return (slice(first, min(first + AT_ONCE, count)) for first in range(0, count, AT_ONCE))


def _gram(words: Doubles) -> Doubles:
    """Products [D, D] of the coordinates of words [n, D], summed over them."""
    product: Doubles = words.T @ words
    return product
