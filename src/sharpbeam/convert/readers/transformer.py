"""A transformer's tensors, made of those of another program by a table of names.

A key is one of our names without its ending: a whole one (`encoder_norm`), the part of a side's layers
(`decoder.ffn.up`) or of all layers (`attention.qkv`). Its value is their name, with fields for the side, the layer
(from 0; `number` from 1) and the ending. Alternatives <q|k|v> are tensors whose rows follow each other in ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from sharpbeam.convert.formats.weights import Tensors
from sharpbeam.errors import ModelError
from sharpbeam.models.transformer.config import TransformerConfig

Names = Mapping[str, str]
_ENDINGS = {  # ours -> that of each program
    "weight": {"end": "weight", "W": "W", "scale": "scale", "gamma": "gamma"},
    "bias": {"end": "bias", "W": "b", "scale": "bias", "gamma": "beta"},
}
_ALTERNATIVES = re.compile(r"(.*)<(.*)>(.*)")


def in_layers(prefix: str, parts: Names, suffix: str = "") -> dict[str, str]:
    """The names of the `parts` of a layer, whose own names stand between `prefix` and `suffix`."""
    return {ours: f"{prefix}{theirs}{suffix}" for ours, theirs in parts.items()}


def names_of(ours: str, table: Names) -> list[str]:
    """The tensors that one of ours is made of."""
    stem, _, ending = ours.rpartition(".")
    if ending not in _ENDINGS:
        stem, ending = ours, "weight"
    side, layer, part = stem.split(".", 2) if stem.count(".") > 1 else ("", "0", stem)
    template = next(table[key] for key in (stem, f"{side}.{part}", part) if key in table)
    name = template.format(side=side, layer=layer, number=int(layer) + 1, **_ENDINGS[ending])
    parts = _ALTERNATIVES.fullmatch(name)
    return [name] if parts is None else [f"{parts[1]}{one}{parts[3]}" for one in parts[2].split("|")]


def add_tensors(tensors: Tensors, sizes: Mapping[str, Any], table: Names, zero_biases: bool = False) -> None:
    """Add every tensor that is not there yet of a transformer with `sizes`, the facts of its config except tokens.

    With `zero_biases` one that is missing is zeros. Raises ModelError if a tensor is missing or of another shape.
    """
    config = TransformerConfig(**{**sizes, "unk_id": 0, "bos_id": 0, "eos_id": 0, "pad_id": 0})
    weights, layers = tensors.weights, config.encoder_layers + config.decoder_layers
    if layers > (most := len(weights.arrays)):  # a damaged config must not make us list billions of names
        raise ModelError(f"{weights.path}: its config has {layers} layers, but it has only {most} tensors.")
    for name, shape in config.tensor_shapes().items():
        if name in tensors:
            continue
        parts = names_of(name, table)
        if zero_biases and name.endswith("bias") and not all(part in weights for part in parts):
            tensors[name] = np.zeros(shape, np.float32)
        else:
            tensors.add(name, parts, shape)
