"""The int8 scan: the exact layer's k best tokens, proven, from one pass over a quarter of the bytes."""

from __future__ import annotations

from sharpbeam import _core
from sharpbeam.output_layers.native import NativeNormalizing
from sharpbeam.output_layers.registry import LayerInputs
from sharpbeam.types import Floats


class ScanLayer(NativeNormalizing[_core.ScanLayer]):
    """Int8 logits of all tokens, then exact ones of every token that could be among the k best.

    Tokens and their logits are those of `ExactLayer`, for every hidden vector (proof: csrc/output/int8_bounds.h), up to
    log probabilities that are equal once rounded. The normalizer is an estimate with a stated error: exact logits of
    the 16 best tokens, int8 ones of the others; or the exact sum where those 16 show that int8 is too coarse for the
    row. Where the error could change a decision, beam search computes a closer one, of 256, then the exact one.
    """

    @classmethod
    def build(cls, weight: Floats, bias: Floats, isa: str = "auto") -> ScanLayer:
        """Quantize and pack the output matrix [V, D] and its bias [V], both float32 and C-contiguous.

        The matrix is shared, and must not be written to afterwards. Raises ValueError for arrays that do not fit, for
        values that are not finite or above 1e12, and for an `isa` that this machine cannot run.
        """
        return cls(_core.ScanLayer(weight, bias, isa))


def build_layer(inputs: LayerInputs) -> ScanLayer:
    """The scan of a model's output matrix."""
    return ScanLayer.build(inputs.weight, inputs.bias, inputs.isa)
