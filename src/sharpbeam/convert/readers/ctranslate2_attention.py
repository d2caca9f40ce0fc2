"""Attention of T5 and its relatives in CTranslate2: widths of heads, scales, relative positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from sharpbeam.convert.formats.weights import Tensors, Weights, values
from sharpbeam.errors import ModelError

_SIDES: tuple[Literal["encoder", "decoder"], ...] = ("encoder", "decoder")
_BIAS, _DISTANCE = "relative_attention_bias", "relative_attention_max_distance"


def attention_facts(weights: Weights, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """head_dim and scaled_attention of TransformerConfig; raises ModelError if layers differ in them."""
    rows, _ = weights.matrix_shape("encoder/layer_0/self_attention/linear_0/weight")
    head_dim = 0 if rows == 3 * sizes["hidden_dim"] else rows // (3 * max(sizes["encoder_heads"], 1))
    names = _names(sizes, "queries_scale", cross=True)
    scales = [weights.number(name, 1.0) for name in names if name in weights]
    if scales and scales != [1.0] * len(names):
        raise ModelError(
            f"{weights.path}: queries_scale is {sorted(set(scales))} in {len(scales)} of {len(names)} attentions; it "
            "must be 1 in all (attention scores without a scale), or left out."
        )
    return {"head_dim": head_dim, "scaled_attention": not scales}


def relative_positions(weights: Weights, tensors: Tensors, sizes: Mapping[str, Any]) -> dict[str, Any] | None:
    """The facts of T5's biases for distances, which are added to `tensors`; None for a model without.

    Raises ModelError if layers differ in the distances that have a bias.
    """
    names = _names(sizes, _BIAS)
    if names[0] not in weights:
        return None
    distances = {weights.number(name, 128.0) for name in _names(sizes, _DISTANCE)}
    if len(distances) != 1:
        raise ModelError(f"{weights.path}: {_DISTANCE} is {sorted(distances)}; it must be the same in all layers.")
    buckets, _ = weights.matrix_shape(names[0])
    facts = {"relative_buckets": buckets, "relative_distance": int(distances.pop())}
    tables = {
        side: [
            weights.take(f"{side}/layer_{i}/self_attention/{_BIAS}", buckets, sizes[f"{side}_heads"])
            for i in range(sizes[f"{side}_layers"])
        ]
        for side in _SIDES
    }
    if all(np.array_equal(table, layers[0]) for layers in tables.values() for table in layers):
        tensors |= {f"{side}_position_bias": layers[0] for side, layers in tables.items()}
        return {"positions": "relative-shared", **facts}
    for side, layers in tables.items():
        tensors |= {f"{side}.{i}.attention.position_bias": table for i, table in enumerate(layers)}
    return {"positions": "relative", **facts}


def scale_outputs(weights: Weights, tensors: Tensors) -> None:
    """Multiply the decoder's last norm by scale_outputs, of hidden vectors; raises ModelError without that norm."""
    name = "decoder/scale_outputs"
    scale = weights.number(name, 1.0)
    if scale == 1.0:
        return
    norm = [one for one in ("decoder_norm.weight", "decoder_norm.bias") if one in tensors]
    if not norm:
        raise ModelError(f"{weights.path}: {name} is {scale:.5g}, and the decoder has no last norm to scale.")
    for one in norm:
        tensors[one] = values(tensors[one]) * np.float32(scale)


def _names(sizes: Mapping[str, Any], variable: str, cross: bool = False) -> list[str]:
    """The names of a variable of all attentions of the source and the target to themselves; with `cross`, of all."""
    kinds = {"encoder": ("self_attention",), "decoder": ("self_attention", *(["attention"] if cross else []))}
    return [
        f"{side}/layer_{layer}/{kind}/{variable}"
        for side in _SIDES
        for layer in range(sizes[f"{side}_layers"])
        for kind in kinds[side]
    ]
