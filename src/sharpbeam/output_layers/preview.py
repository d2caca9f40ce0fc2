"""The preview: the exact layer's best tokens from 4-bit codes of all of them, a sixth of the bytes of an int8 scan.

Hidden vectors and rows of the output matrix are written in a *balanced* basis, in which inner products stay the same
and the first coordinates hold most of the difference between tokens. All tokens are previewed in 4 bits, with as many
coordinates as each needs. A bound on the rest says which of them can be among the best, or can still change a beam
search; those are compared in int8, and the few that are left get exact logits. csrc/output/preview_codes.h has the
proof. The fit decides on speed alone: the bound holds for every hidden vector.

With `fidelity` 1 (the default) tokens and logits are those of the exact layer for every hidden vector. With less, the
layer takes a share of the bound, the largest that was needed on held-out hidden vectors and a tenth more; it is faster,
and may miss a token. How often was measured on text when it was fitted; without that measure it is refused.

Both have a normalizer whose error was measured on held-out vectors (`Normalizer.error`). The proven layer also reports
an error bound for each row, twice the largest error measured: where that could change a decision, beam search computes
the exact normalizer, and so it does for answers whose scores it could move by more than 1e-3. So its answers are those
of the exact layer wherever the reported bounds hold. Greedy search without scores needs no normalizer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpbeam import _core
from sharpbeam.errors import OptionError
from sharpbeam.output_layers.artifact import Arrays, Artifact, Spec, Stored, check_fidelity
from sharpbeam.output_layers.native import NativeNormalizing
from sharpbeam.output_layers.registry import LayerInputs
from sharpbeam.types import Floats, Ids

Doubles = NDArray[np.float64]
LEVELS = 16  # different numbers of coordinates, at most
AT_ONCE = 4096  # tokens that are computed with in float64 together; all of a large matrix would take gigabytes


@dataclass(frozen=True)
class Normalizer:
    """How the sum over all tokens is estimated: csrc/output/preview.h, Normalizer."""

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
class Preview:
    """A fitted preview. A hidden vector h has the coordinates `basis @ h + shift`."""

    basis: Floats  # [D, D]
    shift: Floats  # [D]
    balance: Floats  # [D] positive: the weights of coordinates that are left out
    coordinates: Ids  # [V] how many coordinates of each token are previewed: multiples of 8
    few_coordinates: Ids  # [V] the same with a fidelity below 1
    trust: Floats  # [n] share of the bound that a fidelity below 1 takes of tokens with `sizes` coordinates
    sizes: Ids  # [n]
    normalizers: tuple[Normalizer, Normalizer] = (Normalizer(), Normalizer())  # with a fidelity below 1, and with 1
    fidelity: float = 0.0  # below 1: at least that on held-out text, with 95% confidence; 0: not measured


_ARRAYS: Spec = {
    "basis": ("f4", ("D", "D")),
    "shift": ("f4", ("D",)),
    "balance": ("f4", ("D",)),
    "coordinates": ("i4", ("V",)),
    "few_coordinates": ("i4", ("V",)),
    "trust": ("f4", ("n",)),
    "sizes": ("i4", ("n",)),
    "numbers": ("f8", (2, 9)),
}


def _read(stored: Stored) -> Preview:
    """The preview in its files; a wrong one cannot make an answer wrong, only slow."""
    arrays = dict(stored.arrays)
    numbers = arrays.get("numbers", np.empty(0))
    if numbers.shape == (2, 9):
        arrays["numbers"] = numbers[:, [0, 1, 2, 3, 4, 5, 7, 8]]  # an error that was not measured is NaN
    spec = _ARRAYS | {"numbers": ("f8", (2, 8))}
    values: dict[str, Any] = Stored(stored.where, stored.again, stored.facts, arrays, stored.sizes).checked(spec)
    known = values.pop("numbers")
    stored.require(known.min() >= 0 and bool(np.isfinite(known[:, :6]).all()), "numbers must be finite, none negative")
    normalizers = tuple(Normalizer(*one) for one in numbers.tolist())
    return Preview(**values, normalizers=normalizers, fidelity=float(stored.facts.get("fidelity", 0.0)))  # type: ignore[arg-type]


def _write(preview: Preview) -> tuple[Arrays, Mapping[str, Any]]:
    arrays = {name: getattr(preview, name) for name in _ARRAYS if name != "numbers"}
    arrays["numbers"] = np.array([list(vars(one).values()) for one in preview.normalizers])
    return arrays, {"fidelity": preview.fidelity}


ARTIFACTS = {
    "preview": Artifact("preview", 1, "preview", "--text FILE", _read, _write, old_files=("low_bit.safetensors",))
}


class PreviewLayer(NativeNormalizing[_core.PreviewLayer]):
    """The exact layer's best tokens and logits, and an estimated normalizer."""

    @classmethod
    def build(
        cls,
        weight: Floats,
        bias: Floats,
        preview: Preview,
        isa: str = "auto",
        *,
        measured: bool = False,
        trust: float = 1.0,
        whole_trust: float = 1.0,
    ) -> PreviewLayer:
        """Preview the output matrix [V, D] with its bias [V], both float32 and C-contiguous.

        `measured` takes the share of the bound that a fidelity below 1 needs. `trust` multiplies the bounds of the
        first coordinates, `whole_trust` those of all: tests take less than 1, to see that they matter. The matrix
        is shared and must not be written to afterwards. Raises OptionError or
        ValueError for arrays that do not fit, for values that are not finite or above 1e12, for a basis that has no
        inverse, and for an `isa` that this machine cannot run.
        """
        rows, center, remainder = _rows(weight, preview)
        chosen = preview.few_coordinates if measured else preview.coordinates
        tokens, start, coordinates = _levels(rows, preview, chosen)
        n = preview.normalizers[0 if measured else 1]
        calibration = _trusts(preview, coordinates)
        trusts = trust * (calibration if measured else np.ones(len(coordinates)))
        whole = 1.0 if measured else float(calibration.max())  # the calibrated share of the layer's bounds
        native = _core.PreviewLayer(
            weight,
            bias,
            preview.basis,
            preview.shift,
            center,
            rows,
            preview.balance.astype(np.float64),
            tokens,
            start,
            coordinates,
            trusts,
            whole_trust,
            remainder,
            whole * n.share,
            *(n.exact, n.refined, n.summed, n.near, n.far, n.spread, n.unsure),
            not measured,
            isa=isa,
        )
        return cls(native, whole)

    def __init__(self, native: _core.PreviewLayer, whole: float = 1.0) -> None:
        super().__init__(native)
        self._whole = whole

    def totals(self, hidden: Floats, n: Normalizer) -> tuple[Floats, int, int]:
        """The normalizer [R] of each row of `hidden` [R, D] by another choice than the layer's, for calibrating it.

        And how many tokens it looked up, and how many of them exactly.
        """
        return self.native.normalizers(hidden, self._whole * n.share, n.exact, n.refined, n.summed, n.near, n.far)

    def counts(self, hidden: Floats, k: int = 1) -> dict[str, int]:
        """Tokens that each stage left, summed over the rows of `hidden` [R, D]; see csrc/output/preview.h."""
        return self.native.topk_details(hidden, k, False)[3]


def _rows(weight: Floats, preview: Preview) -> tuple[Doubles, Floats, float]:
    """The tokens in the basis [V, D], their center [D], and the largest share that the basis leaves over."""
    width = weight.shape[1] if weight.ndim == 2 else 0
    if preview.basis.shape != (width, width) or preview.shift.shape != (width,) or not len(weight):
        raise OptionError(
            f"the preview has a basis of the shape {list(preview.basis.shape)}, but weight is {list(weight.shape)}; "
            f"fit it on this model"
        )
    center = weight.mean(axis=0, dtype=np.float64).astype(np.float32)
    basis, largest = preview.basis.astype(np.float64), 0.0
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


def _levels(rows: Doubles, preview: Preview, chosen: Ids) -> tuple[Ids, Ids, Ids]:
    """Token ids [V] level by level, the first place of each level [L + 1], and its coordinates [L], falling.

    Within a level those whose previews say least come first, so that the panels of a level differ as much as can be.
    """
    most = -(-rows.shape[1] // 8) * 8
    if chosen.shape != (len(rows),) or chosen.min() < 8 or chosen.max() > most or (chosen % 8).any():
        raise OptionError(f"coordinates must be multiples of 8 from 8 to {most}, one for each token; fit them again")
    if preview.balance.shape != (rows.shape[1],) or not (preview.balance > 0).all():
        raise OptionError("balance must be one positive number for each coordinate; fit the preview again")
    sizes = np.unique(chosen)[::-1]
    if len(sizes) > LEVELS:
        raise OptionError(f"coordinates has {len(sizes)} different values; at most {LEVELS}. Fit the preview again")
    levels = []
    for size in sizes.tolist():
        ids = (chosen == size).nonzero()[0]
        left_out = np.empty(len(ids))
        for some in _parts(len(ids)):  # all squares at once would take as much again as the tokens, twice
            kept, others = rows[ids[some], :size], rows[ids[some], size:] / preview.balance[size:]
            left_out[some] = (others**2).sum(axis=1) + 0.01 * (kept**2).sum(axis=1)
        levels.append(ids[np.argsort(-left_out, kind="stable")])
    start = np.cumsum([0, *map(len, levels)]).astype(np.int32)
    return np.concatenate(levels).astype(np.int32), start, sizes.astype(np.int32)


def _trusts(preview: Preview, coordinates: Ids) -> Doubles:
    """The share of the bound for each level's coordinates [L]."""
    known = dict(zip(preview.sizes.tolist(), preview.trust.tolist(), strict=False))
    if missing := [m for m in coordinates.tolist() if m not in known]:
        raise OptionError(f"the preview has no trust for {missing[0]} coordinates; fit it again")
    return np.array([known[m] for m in coordinates.tolist()])


def _parts(count: int) -> Iterator[slice]:
    """Of `count` tokens, AT_ONCE at a time."""
    return (slice(first, min(first + AT_ONCE, count)) for first in range(0, count, AT_ONCE))


def build_layer(inputs: LayerInputs) -> PreviewLayer:
    """The layer of a model's preview; raises ModelError if there is none, OptionError for too high a fidelity."""
    preview: Preview = inputs.artifacts.read("preview")
    fidelity = inputs.options.fidelity
    measured = fidelity is not None and fidelity < 1
    if measured:
        check_fidelity("preview", fidelity, preview.fidelity)
    return PreviewLayer.build(inputs.weight, inputs.bias, preview, inputs.isa, measured=measured)
