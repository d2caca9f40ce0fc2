"""The preview: logits by product quantization, 4-bit codes that are looked up: a fifth of the bytes of a scan.

A row makes a table of its dot products with code words, and adds up its entries for all tokens, 32 or 64 at a time.
fit/preview.py has the codes, csrc/output/preview.h the sums.

A token takes its exact logit unless it is `DEVIATIONS` standard deviations of its own error below what counts. That is
measured, not proven: docs/lab/previews.md has how often a row lost a token, on text unlike that of the fit. With
`fidelity` 1 it is the scan (proof: csrc/output/int8_bounds.h); a bound of these codes would leave a quarter of tokens.

The normalizer is exact for the tokens that were taken, an estimate for the others, and states its error: where that
could change a decision, beam search computes a closer one, then the exact one. Greedy search without scores needs none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sharpbeam import _core
from sharpbeam.options.schema import require
from sharpbeam.output_layers.artifact import Arrays, Artifact, Spec, Stored
from sharpbeam.output_layers.interface import OutputLayer
from sharpbeam.output_layers.native import NativeNormalizing
from sharpbeam.output_layers.registry import LayerInputs
from sharpbeam.types import Floats, Ids

WORDS = 16  # code words of a group of coordinates
DEVIATIONS = 6.0
LARGEST = 1e12  # of all numbers
FIDELITY = 0.9999  # with Firefox's models 0 of 1,166,115 rows of unlike text lost a token that matters


@dataclass(frozen=True)
class Normalizer:
    """How the sum over all tokens is estimated: csrc/output/preview.h, PreviewNormalizer."""

    depth: float = 0.0
    near: float = 1.0
    far: float = 1.0
    spread: float = float("inf")  # of the stated error


@dataclass(frozen=True)
class Preview:
    """A fitted preview. A hidden vector h has the coordinates `basis @ h + shift`."""

    basis: Floats  # [D, D]
    shift: Floats  # [D]
    center: Floats  # [D] the mean row of the matrix
    words: Floats  # [16, D] the code words of all groups next to each other
    lengths: Ids  # [M] coordinates of each group
    codes: Ids  # [V, ceil(M / 8)] of each token, eight in a number, the first in its low bits
    scale: Floats  # [V] by which a token's words are multiplied
    offset: Floats  # [V] its logit at the mean hidden vector, without the center's
    deviation: Floats  # [V] standard deviation of its error over the vectors of the fit
    normalizer: Normalizer = Normalizer()


_ARRAYS: Spec = {
    "basis": ("f4", ("D", "D")),
    "shift": ("f4", ("D",)),
    "center": ("f4", ("D",)),
    "words": ("f4", (WORDS, "D")),
    "lengths": ("i4", ("M",)),
    "codes": ("i4", ("V", "N")),
    "scale": ("f4", ("V",)),
    "offset": ("f4", ("V",)),
    "deviation": ("f4", ("V",)),
    "normalizer": ("f8", (4,)),
}


def _read(stored: Stored) -> Preview:
    """The preview in its files."""
    arrays: dict[str, Any] = stored.checked(_ARRAYS)
    for name, values in arrays.items():
        least = 0.0 if name in ("scale", "deviation", "normalizer") else -LARGEST
        sound = values.dtype.kind != "f" or bool(((values >= least) & (values <= LARGEST)).all())
        stored.require(sound, f"{name} must be from {least:g} to {LARGEST:g}")
    numbers = arrays.pop("normalizer")
    return Preview(**arrays, normalizer=Normalizer(*numbers.tolist()))


def _write(preview: Preview) -> tuple[Arrays, Mapping[str, Any]]:
    arrays = {name: getattr(preview, name) for name in _ARRAYS}
    arrays["normalizer"] = np.array(list(vars(preview.normalizer).values()))
    return arrays, {}


ARTIFACTS = {"preview": Artifact("preview", 2, "preview", "", _read, _write)}


class PreviewLayer(NativeNormalizing[_core.PreviewLayer]):
    """The exact layer's logits of the tokens that the codes leave, and an estimated normalizer."""

    @classmethod
    def build(
        cls, weight: Floats, bias: Floats, preview: Preview, isa: str = "auto", *, deviations: float = DEVIATIONS
    ) -> PreviewLayer:
        """Preview the output matrix [V, D] with its bias [V], both float32 and C-contiguous.

        The matrix is shared and must not be written to afterwards. Raises ValueError for arrays that do not fit and for
        an `isa` that this machine cannot run. Values are not read: a fit has read them, and loading an artifact.
        """
        p, n = preview, preview.normalizer
        arrays = (p.basis, p.shift, p.center, p.words, p.lengths, p.codes, p.scale, p.offset, p.deviation)
        return cls(_core.PreviewLayer(weight, bias, *arrays, deviations, n.depth, n.near, n.far, n.spread, isa=isa))

    def totals(self, hidden: Floats, n: Normalizer) -> tuple[Floats, Floats]:
        """The normalizer [R] of each row of `hidden` [R, D] by another choice, and its estimated share."""
        return self.native.normalizers(hidden, n.depth, n.near, n.far)


def build_layer(inputs: LayerInputs) -> OutputLayer:
    """The layer of a model's preview; with fidelity 1 its scan. Raises ModelError if there is no preview."""
    fidelity = inputs.options.fidelity
    if fidelity == 1:
        return inputs.layer("scan")
    preview: Preview = inputs.artifacts.read("preview")
    require((fidelity or 0.0) <= FIDELITY, "fidelity", fidelity, f"at most {FIDELITY} with preview, or 1, its scan")
    return PreviewLayer.build(inputs.weight, inputs.bias, preview, inputs.isa)
