"""The certified projection: the exact layer's k best words, proven, from a small part of the bytes of a scan.

Hidden vectors and words are written in a *balanced* basis, in which inner products stay what they are, and the first
coordinates hold most of what tells words apart. All words are previewed with these, as bytes; a bound on the rest says
which of them can be among the k best; those get exact logits. csrc/projections/certified.h has the proof. The basis
is fitted on a sample of hidden vectors, but the bound holds for every vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quickbeam import _core
from quickbeam.errors import OptionError
from quickbeam.projections.door import RowProjection
from quickbeam.types import Floats, Ids, TopK

Doubles = NDArray[np.float64]
RIDGE = 1e-4  # of the mean eigenvalue, added to the second moment so that it can be inverted
BALANCE = 0.1  # the root of how large the rounding of a hidden vector to bytes is, about
ERROR = 1e-3  # default tolerance of `log_total`
REFINED = 256  # words that `log_total` takes exact logits of


@dataclass(frozen=True)
class Preview:
    """What is fitted: a basis [D, D] and shift [D], float32, and how many coordinates of all words are looked at.

    A hidden vector h has the coordinates `basis @ h + shift`.
    """

    basis: Floats
    shift: Floats
    coordinates: int

    @classmethod
    def fit(cls, weight: Floats, samples: Floats, coordinates: int | None = None) -> Preview:
        """The balanced basis of the output matrix [V, D] and some hidden vectors [N, D], N >= 1.

        S is the second moment of the samples about their mean, U the eigenvectors of S^1/2 W'W S^1/2 with eigenvalues
        l: the basis is l^1/4 U' S^-1/2, so that both sides have the same root mean squares. `coordinates` are a fifth
        of the width if not given. Raises OptionError for sizes that do not fit.
        """
        width = weight.shape[1]
        wanted = max(1, width // 5) if coordinates is None else coordinates
        if not 1 <= wanted <= width:
            raise OptionError(f"coordinates is {wanted}; it must be from 1 to the width, {width}")
        if samples.ndim != 2 or samples.shape[1] != width or len(samples) == 0:
            raise OptionError(f"samples has the shape {list(samples.shape)}; it must be [at least 1, {width}]")
        mean = samples.mean(axis=0, dtype=np.float64)
        spread = samples.astype(np.float64) - mean
        moment = spread.T @ spread / len(samples)
        words = weight.astype(np.float64) - weight.mean(axis=0, dtype=np.float64)
        scale = np.trace(moment) / width or 1.0
        sizes, directions = np.linalg.eigh(moment + RIDGE * scale * np.eye(width))
        root, inverse = (directions * np.sqrt(sizes) @ directions.T, directions / np.sqrt(sizes) @ directions.T)
        values, vectors = np.linalg.eigh(root @ (words.T @ words) @ root)
        values, vectors = values[::-1], vectors[:, ::-1]
        balance = np.maximum(values, RIDGE**2 * max(values[0], 1e-30)) ** 0.25
        basis = (balance[:, None] * (vectors.T @ inverse)).astype(np.float32)
        return cls(basis, (-basis.astype(np.float64) @ mean).astype(np.float32), wanted)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """As arrays by name, for a file."""
        return {"basis": self.basis, "shift": self.shift, "coordinates": np.array([self.coordinates], np.int32)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]]) -> Preview:
        """The preview of `arrays()`; any finite values are safe, bad ones only make it slow. Raises OptionError."""
        missing = sorted({"basis", "shift", "coordinates"} - arrays.keys())
        if missing:
            raise OptionError(f"the preview has no {', '.join(missing)}; fit it again")
        basis = np.ascontiguousarray(arrays["basis"], np.float32)
        shift = np.ascontiguousarray(arrays["shift"], np.float32)
        return cls(basis, shift, int(np.asarray(arrays["coordinates"]).reshape(-1)[0]))


class CertifiedProjection(RowProjection):
    """The exact layer's k best words and logits, for every hidden vector; log probabilities are approximate.

    Their normaliser takes exact logits of the 32 best words and previews of the others, or all exact logits where the
    preview is rough; `log_total` gives one with a proven error. Any number of threads may share one; a row's answer has
    the same bits whatever the rows around it and the table.
    """

    def __init__(self, native: _core.CertifiedProjection) -> None:
        self._native = native
        self.vocab_size = native.vocab_size

    @classmethod
    def build(
        cls, weight: Floats, bias: Floats, preview: Preview, isa: str = "auto", trust: float = 1.0
    ) -> CertifiedProjection:
        """Preview the output matrix [V, D] with its bias [V], both float32 and C-contiguous.

        `trust` multiplies the bound: 1 is proven, tests take less. Raises ValueError for arrays that do not fit, for
        values that are not finite or above 1e12, for a basis that has no inverse, and for an `isa` that this machine
        cannot run.
        """
        rows, centre, rest = _rows(weight, preview)
        head = rows[:, : preview.coordinates]
        native = _core.CertifiedProjection(
            weight,
            bias,
            preview.basis,
            preview.shift,
            centre,
            rows,
            _gram(rows, preview.coordinates),
            preview.coordinates,
            rest,
            float(np.sqrt(np.linalg.norm(head.T @ head, 2) * (1 + 1e-9))),
            BALANCE,
            isa,
            trust,
        )
        return cls(native)

    def topk(self, hidden: Floats, k: int) -> TopK:
        """The k best tokens of each row of `hidden` [R, D], ties by lower id; ValueError unless 1 <= k <= V."""
        log_prob, token, _, _ = self._native.topk(hidden, k)
        return TopK(log_prob, token)

    def log_prob(self, hidden: Floats, token: Ids) -> Floats:
        """Log probability [R] of the given token [R] of each row: the same bits as from `topk`."""
        return self._native.log_prob(hidden, token)

    def log_total(self, hidden: Floats, tolerance: float = ERROR, refined: int = REFINED) -> tuple[Floats, Floats]:
        """Log-sum-exp of the exact layer's logits, and its proven error, both [R].

        Takes exact logits of `refined` words; where that does not prove `tolerance`, of all words.
        """
        return self._native.log_total(hidden, min(refined, self.vocab_size), tolerance)

    def rescored(self, hidden: Floats, k: int) -> Ids:
        """How many words [R] took exact logits: some of the largest, and all that the bound does not rule out."""
        return self._native.topk(hidden, k)[3]


def _rows(weight: Floats, preview: Preview) -> tuple[Doubles, Floats, float]:
    """The words in the preview's basis [V, D], their centre [D], and the largest share that the basis leaves over."""
    width = weight.shape[1] if weight.ndim == 2 else 0
    if preview.basis.shape != (width, width) or preview.shift.shape != (width,) or not len(weight):
        raise OptionError(
            f"the preview has a basis of the shape {list(preview.basis.shape)}, but weight is {list(weight.shape)}; "
            f"fit it on this model"
        )
    if not 1 <= preview.coordinates <= width:
        raise OptionError(f"coordinates is {preview.coordinates}; it must be from 1 to the width, {width}")
    centre = weight.mean(axis=0, dtype=np.float64).astype(np.float32)
    basis = preview.basis.astype(np.float64)
    words = weight.astype(np.float64) - centre
    try:
        rows = np.ascontiguousarray(np.linalg.solve(basis.T, words.T).T)
    except np.linalg.LinAlgError as error:
        raise OptionError(f"the preview's basis cannot be inverted ({error}); fit it again") from None
    rest = np.linalg.norm(words - rows @ basis, axis=1)
    rest += width * 2.0**-51 * np.linalg.norm(basis) * np.linalg.norm(rows, axis=1)  # what double precision rounds
    size = np.linalg.norm(weight.astype(np.float64), axis=1) + np.linalg.norm(centre.astype(np.float64))
    share = np.divide(rest, size, out=np.zeros_like(rest), where=size > 0)
    return rows, centre, float(share.max() * (1 + 1e-9) + 1e-12)


def _gram(rows: Doubles, coordinates: int) -> Doubles:
    """Numbers G_j [D] with |Y2 g|^2 <= sum of G_j g_j^2 for the coordinates that are not previewed; zero before."""
    tail = rows[:, coordinates:]
    product = tail.T @ tail
    own = np.diag(product).copy()
    others = np.linalg.norm(product - np.diag(own), 2) if own.size else 0.0
    return np.concatenate([np.zeros(coordinates), (own + others) * (1 + 1e-9)])
