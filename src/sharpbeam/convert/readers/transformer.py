"""A transformer's tensors, made of those of another program by a table of names, and its tables of positions.

A key is one of our names without its ending: a whole one (`encoder_norm`), the part of a side's layers
(`decoder.ffn.up`) or of all layers (`attention.qkv`). Its value is their name, with fields for the side, the layer
(from 0; `number` from 1) and the ending. Alternatives <q|k|v> are tensors whose rows follow each other in ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from sharpbeam.convert.formats.weights import Tensor, Tensors
from sharpbeam.errors import ModelError
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.models.transformer.positions import Sinusoid, sinusoid
from sharpbeam.types import Floats

Names = Mapping[str, str]
_ENDINGS = {  # ours -> that of each program
    "weight": {"end": "weight", "W": "W", "scale": "scale", "gamma": "gamma"},
    "bias": {"end": "bias", "W": "b", "scale": "bias", "gamma": "beta"},
}
_ALTERNATIVES = re.compile(r"(.*)<(.*)>(.*)")
CLOSE = 5e-3  # bfloat16 tables differ by 4e-3; the two kinds differ by far more a few hundred positions on
_FIRSTS = (0, 1, 2)  # positions that tables begin with


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


def add_positions(tensors: Tensors, tables: Sequence[Floats], dim: int) -> tuple[dict[str, Any], bool]:
    """The facts of the tables of both sides, [n, dim], and whether their sines and cosines are interleaved.

    Tables that are no sinusoids are added to the tensors. Raises ModelError for tables of different sizes.
    """
    sizes = {table.shape for table in tables}
    if any(len(size) != 2 or size[1] != dim for size in sizes):
        raise ModelError(f"{tensors.weights.path}: the tables of positions must be [n, {dim}], but are {sizes}.")
    kinds = {recognize(table) for table in tables}
    if len(kinds) == 1 and (sinusoids := kinds.pop()) is not None:
        kind, first, interleaved = sinusoids
        return {"positions": kind, "position_offset": first}, interleaved
    if len(tables) != 2 or len(sizes) > 1:
        raise ModelError(
            f"{tensors.weights.path}: the learned tables of both sides must have one size, but are {sizes}."
        )
    return add_learned(tensors, tables), False


def add_learned(tensors: Tensors, tables: Sequence[Floats]) -> dict[str, Any]:
    """The facts of learned tables, which are added to the tensors."""
    tensors["source_positions"], tensors["target_positions"] = tables
    return {"positions": "learned", "max_positions": len(tables[0])}


def recognize(table: Floats) -> tuple[Sinusoid, int, bool] | None:
    """The sinusoids of a table [n, dim]: their kind, first position, and whether sines and cosines are interleaved.

    None for another table.
    """
    count, dim = table.shape
    if count < 2 or dim % 2 or dim < 4:
        return None
    samples = np.unique(np.concatenate([np.arange(min(count, 64)), [count // 2, count - 1]]))
    orders = {False: table[samples], True: table[samples][:, sines_first(dim)]}
    for interleaved, kind, first in product(orders, get_args(Sinusoid), _FIRSTS):
        rows = sinusoid(kind, first, count, dim)[samples]
        if np.abs(rows - orders[interleaved]).max() < CLOSE:
            return kind, first, interleaved
    return None


def sines_first(dim: int) -> NDArray[np.intp]:
    """[dim] the order that makes sines, then cosines, of an interleaved table."""
    return np.concatenate([np.arange(0, dim, 2), np.arange(1, dim, 2)])


def with_sines_first(tensors: Mapping[str, Tensor], dim: int) -> dict[str, Tensor]:
    """The tensors of a transformer with attention, for tables in that order: all vectors that layers add to get it too.

    The order of the numbers of a vector means nothing to sums, norms and products, if all agree on it.
    """
    order = sines_first(dim)
    reads = ("embedding", "output_weight", "qkv.weight", "query.weight", "key_value.weight", "up.weight")
    writes = ("norm.weight", "norm.bias", ".out.weight", ".out.bias", "down.weight", "down.bias")
    reordered = dict(tensors)
    for name, tensor in tensors.items():
        if name.endswith(reads):
            reordered[name] = tensor.T[order].T
        elif name.endswith(writes):
            reordered[name] = tensor[order]
    return reordered
