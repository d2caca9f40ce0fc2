"""The exact output layer: log softmax over all tokens, then the k best."""

from __future__ import annotations

from sharpbeam import _core
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.output_layers.native import NativeNormalizing
from sharpbeam.output_layers.registry import LayerInputs
from sharpbeam.types import Floats


class ExactLayer(NativeNormalizing[_core.ExactLayer]):
    """Logits, log-sum-exp and top k of all tokens, in float32."""

    @classmethod
    def build(cls, weight: Floats, bias: Floats, isa: str = "auto", *, deferred: bool = False) -> ExactLayer:
        """Pack the output matrix [V, D] and its bias [V], both float32 and C-contiguous, for a table of kernels.

        `deferred` packs them when the layer is first used, so that a layer that is not asked costs nothing; the
        arrays must not be written to then. Raises ValueError for arrays that do not fit, and for an `isa` that this
        machine cannot run.
        """
        return cls(_core.ExactLayer(weight, bias, isa, deferred))


def build_layer(inputs: LayerInputs) -> RowLayer:
    """The exact layer of a model."""
    return ExactLayer.build(inputs.weight, inputs.bias, inputs.isa, deferred=True)
