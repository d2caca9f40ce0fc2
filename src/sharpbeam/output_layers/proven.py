"""The proven output layer: the exact layer's best tokens, with proof, from a sixth of the bytes of an int8 scan.

Hidden vectors and rows of the output matrix are written in a *balanced* basis, in which inner products stay what they
are and the first coordinates hold most of what tells tokens apart. All tokens are previewed in 4 bits, with as many
coordinates as each needs. A bound on the rest says which of them can be among the best, or can still change a beam
search; those are compared in int8, and the few that are left get exact logits. csrc/output/low_bit_preview.h has the
proof. What is fitted decides on speed alone: the bound holds for every hidden vector.

Two layers are made of one preview:

- `proven`: the tokens and logits are those of the exact layer for every hidden vector.
- `calibrated`: the same with a share of the bound, the largest that was needed on held-out hidden vectors and a tenth
  more. It is faster, and may miss a token once in thousands of rows.

Both have a calibrated normaliser, whose error was measured on held-out vectors (`Normaliser.error`). That of `proven`
is stated for each row too, twice what was ever measured: a beam search asks for exact normalisers where it could choose
otherwise within it, and for answers whose scores it could move by more than 1e-3. So its answers are those of the exact
layer wherever the stated errors hold. Greedy search without scores needs none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sharpbeam import _core
from sharpbeam.errors import OptionError
from sharpbeam.output_layers.native import NativeNormalising
from sharpbeam.types import Floats, Ids

if TYPE_CHECKING:
    from sharpbeam.output_layers.registry import LayerInputs

LAYERS = {
    "proven": ("the same from a 4-bit preview of each token (see fit-preview)", ("low_bit",)),
    "calibrated": ("nearly the same, faster", ("low_bit",)),
}
Doubles = NDArray[np.float64]
LEVELS = 16  # different numbers of coordinates, at most
AT_ONCE = 4096  # tokens that are computed with in float64 together; all of a large matrix would take gigabytes


@dataclass(frozen=True)
class Normaliser:
    """How the sum over all tokens is estimated: csrc/output/proven.h, Normaliser."""

    share: float = 1.0  # of the calibrated bound
    exact: float = 5.0
    refined: float = 5.0
    summed: float = 8.0
    near: float = 1.0
    far: float = 4.0
    error: float = float("nan")  # root mean square error on held-out hidden vectors
    spread: float = 0.0  # what is stated for a row: this times the share of its sum that near and far are taken of,
    unsure: float = float("inf")  # and this times the fourth root of what the best known token leaves to others


@dataclass(frozen=True)
class LowBit:
    """A fitted low-bit preview. A hidden vector h has the coordinates `basis @ h + shift`."""

    basis: Floats  # [D, D]
    shift: Floats  # [D]
    balance: Floats  # [D] positive: what coordinates that are left out are weighed by
    coordinates: Ids  # [V] how many coordinates of each token are previewed: multiples of 8
    few_coordinates: Ids  # [V] the same of the calibrated layer
    trust: Floats  # [n] share of the bound that the calibrated layer takes of tokens with `sizes` coordinates
    sizes: Ids  # [n]
    normalisers: tuple[Normaliser, Normaliser] = (Normaliser(), Normaliser())  # calibrated, proven

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """By name, for saving."""
        return {
            "basis": self.basis,
            "shift": self.shift,
            "balance": self.balance,
            "coordinates": self.coordinates,
            "few_coordinates": self.few_coordinates,
            "trust": self.trust,
            "sizes": self.sizes,
            "numbers": np.array([list(vars(one).values()) for one in self.normalisers]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]]) -> LowBit:
        """The preview of `arrays()`; raises OptionError where something is missing or of another shape."""
        names = {"basis", "shift", "balance", "coordinates", "few_coordinates", "trust", "sizes", "numbers"}
        if missing := sorted(names - arrays.keys()):
            raise OptionError(f"the preview has no {', '.join(missing)}; fit it again")
        numbers = np.ascontiguousarray(arrays["numbers"], np.float64)
        sound = numbers.shape == (2, 9) and np.isfinite(numbers[:, :6]).all() and not np.isnan(numbers[:, 7:]).any()
        if not sound or numbers[:, [0, 1, 2, 3, 4, 5, 7, 8]].min() < 0:
            raise OptionError("the numbers of the preview must be [2, 9], and none negative; fit it again")
        normalisers = Normaliser(*numbers[0].tolist()), Normaliser(*numbers[1].tolist())
        floats = (np.ascontiguousarray(arrays[name], np.float32) for name in ("basis", "shift", "balance", "trust"))
        ids = (np.ascontiguousarray(arrays[name], np.int32) for name in ("coordinates", "few_coordinates", "sizes"))
        basis, shift, balance, trust = floats
        coordinates, few, sizes = ids
        return cls(basis, shift, balance, coordinates, few, trust, sizes, normalisers)


class ProvenLayer(NativeNormalising[_core.ProvenLayer]):
    """The exact layer's best tokens and logits, and a calibrated normaliser."""

    @classmethod
    def build(
        cls,
        weight: Floats,
        bias: Floats,
        low_bit: LowBit,
        isa: str = "auto",
        *,
        calibrated: bool = False,
        trust: float = 1.0,
        whole_trust: float = 1.0,
    ) -> ProvenLayer:
        """Preview the output matrix [V, D] with its bias [V], both float32 and C-contiguous.

        `trust` multiplies the bounds of the first coordinates, `whole_trust` those of all: tests take less than 1, to
        see that they matter. The matrix is shared and must not be written to afterwards. Raises OptionError or
        ValueError for arrays that do not fit, for values that are not finite or above 1e12, for a basis that has no
        inverse, and for an `isa` that this machine cannot run.
        """
        rows, center, remainder = _rows(weight, low_bit)
        chosen = low_bit.few_coordinates if calibrated else low_bit.coordinates
        tokens, start, coordinates = _levels(rows, low_bit, chosen)
        n = low_bit.normalisers[0 if calibrated else 1]
        calibration = _trusts(low_bit, coordinates)
        trusts = trust * (calibration if calibrated else np.ones(len(coordinates)))
        whole = 1.0 if calibrated else float(calibration.max())  # the calibrated share of the layer's bounds
        native = _core.ProvenLayer(
            weight,
            bias,
            low_bit.basis,
            low_bit.shift,
            center,
            rows,
            low_bit.balance.astype(np.float64),
            tokens,
            start,
            coordinates,
            trusts,
            whole_trust,
            remainder,
            whole * n.share,
            *(n.exact, n.refined, n.summed, n.near, n.far, n.spread, n.unsure),
            not calibrated,
            isa=isa,
        )
        return cls(native, whole)

    def __init__(self, native: _core.ProvenLayer, whole: float = 1.0) -> None:
        super().__init__(native)
        self._whole = whole

    def totals(self, hidden: Floats, n: Normaliser) -> tuple[Floats, int, int]:
        """The normaliser [R] of each row of `hidden` [R, D] by another choice than the layer's, for calibrating it.

        And how many tokens it looked up, and how many of them exactly.
        """
        return self.native.normalisers(hidden, self._whole * n.share, n.exact, n.refined, n.summed, n.near, n.far)

    def counts(self, hidden: Floats, k: int = 1) -> dict[str, int]:
        """Tokens that each stage left, summed over the rows of `hidden` [R, D]; see csrc/output/proven.h."""
        return self.native.topk_details(hidden, k, False)[3]


def _rows(weight: Floats, low_bit: LowBit) -> tuple[Doubles, Floats, float]:
    """The tokens in the basis [V, D], their center [D], and the largest share that the basis leaves over."""
    width = weight.shape[1] if weight.ndim == 2 else 0
    if low_bit.basis.shape != (width, width) or low_bit.shift.shape != (width,) or not len(weight):
        raise OptionError(
            f"the preview has a basis of the shape {list(low_bit.basis.shape)}, but weight is {list(weight.shape)}; "
            f"fit it on this model"
        )
    center = weight.mean(axis=0, dtype=np.float64).astype(np.float32)
    basis, largest = low_bit.basis.astype(np.float64), 0.0
    try:
        inverse = np.linalg.inv(basis)
    except np.linalg.LinAlgError as error:
        raise OptionError(f"the preview's basis cannot be inverted ({error}); fit it again") from None
    rows = np.empty(weight.shape)
    for some in _parts(len(weight)):
        tokens = weight[some].astype(np.float64)
        size = np.linalg.norm(tokens, axis=1) + np.linalg.norm(center.astype(np.float64))
        tokens -= center
        np.matmul(tokens, inverse, out=rows[some])
        rest = np.linalg.norm(tokens - rows[some] @ basis, axis=1)
        # Rounding of double precision.
        rest += width * 2.0**-51 * np.linalg.norm(basis) * np.linalg.norm(rows[some], axis=1)
        share = np.divide(rest, size, out=np.zeros_like(rest), where=size > 0)
        largest = max(largest, float(share.max()))
    return rows, center, largest * (1 + 1e-9) + 1e-12


def _levels(rows: Doubles, low_bit: LowBit, chosen: Ids) -> tuple[Ids, Ids, Ids]:
    """Token ids [V] level by level, the first place of each level [L + 1], and its coordinates [L], falling.

    Within a level those whose previews say least come first, so that the panels of a level differ as much as can be.
    """
    most = -(-rows.shape[1] // 8) * 8
    if chosen.shape != (len(rows),) or chosen.min() < 8 or chosen.max() > most or (chosen % 8).any():
        raise OptionError(f"coordinates must be multiples of 8 from 8 to {most}, one for each token; fit them again")
    if low_bit.balance.shape != (rows.shape[1],) or not (low_bit.balance > 0).all():
        raise OptionError("balance must be one positive number for each coordinate; fit the preview again")
    sizes = np.unique(chosen)[::-1]
    if len(sizes) > LEVELS:
        raise OptionError(f"coordinates has {len(sizes)} different values; at most {LEVELS}. Fit the preview again")
    levels = []
    for size in sizes.tolist():
        ids = (chosen == size).nonzero()[0]
        left_out = np.empty(len(ids))
        for some in _parts(len(ids)):  # all squares at once would take as much again as the tokens, twice
            kept, others = rows[ids[some], :size], rows[ids[some], size:] / low_bit.balance[size:]
            left_out[some] = (others**2).sum(axis=1) + 0.01 * (kept**2).sum(axis=1)
        levels.append(ids[np.argsort(-left_out, kind="stable")])
    start = np.cumsum([0, *map(len, levels)]).astype(np.int32)
    return np.concatenate(levels).astype(np.int32), start, sizes.astype(np.int32)


def _trusts(low_bit: LowBit, coordinates: Ids) -> Doubles:
    """The share of the bound for each level's coordinates [L]."""
    known = dict(zip(low_bit.sizes.tolist(), low_bit.trust.tolist(), strict=False))
    if missing := [m for m in coordinates.tolist() if m not in known]:
        raise OptionError(f"the preview has no trust for {missing[0]} coordinates; fit it again")
    return np.array([known[m] for m in coordinates.tolist()])


def _parts(count: int) -> Iterator[slice]:
    """Of `count` tokens, AT_ONCE at a time."""
    return (slice(first, min(first + AT_ONCE, count)) for first in range(0, count, AT_ONCE))


def build_layer(name: str, given: LayerInputs) -> ProvenLayer:
    """The layer of a model's low-bit preview; raises ModelError where there is none."""
    low_bit = given.artifacts.low_bit()
    return ProvenLayer.build(given.weight, given.bias, low_bit, given.isa, calibrated=name == "calibrated")
