"""Tables of position encodings: what they are made of, so that they need not be kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from sharpbeam.convert.formats.weights import Tensor
from sharpbeam.models.transformer.positions import Sinusoid, sinusoid
from sharpbeam.types import Floats

CLOSE = 5e-3  # bfloat16 tables differ by 4e-3; the two kinds differ by far more a few hundred positions on


def recognise(table: Floats, firsts: tuple[int, ...] = (0,)) -> tuple[Sinusoid, int] | None:
    """The kind and the first position of a table [n, dim] of sines and cosines, None where it is another one."""
    count, dim = table.shape
    if count < 2 or dim % 2 or dim < 4:
        return None
    some = np.unique(np.concatenate([np.arange(min(count, 64)), [count // 2, count - 1]]))
    for kind in get_args(Sinusoid):
        for first in firsts:
            expected = sinusoid(kind, first, count, dim)[some]
            if np.abs(expected - table[some]).max() < CLOSE:
                return kind, first
    return None


def sines_first(dim: int) -> NDArray[np.intp]:
    """[dim] the order that makes sines, then cosines, of a table in which they stand in turn."""
    return np.concatenate([np.arange(0, dim, 2), np.arange(1, dim, 2)])


def with_sines_first(tensors: Mapping[str, Tensor], dim: int) -> dict[str, Tensor]:
    """The tensors of a transformer with attention, for tables in that order: what a layer adds to, in the same order.

    The order of the numbers of a vector means nothing to sums, norms and products, if all agree on it.
    """
    order = sines_first(dim)
    read = ("embedding", "output_weight", "qkv.weight", "query.weight", "key_value.weight", "up.weight")
    written = ("norm.weight", "norm.bias", ".out.weight", ".out.bias", "down.weight", "down.bias")
    reordered = dict(tensors)
    for name, tensor in tensors.items():
        if name.endswith(read):
            reordered[name] = tensor.T[order].T
        elif name.endswith(written):
            reordered[name] = tensor[order]
    return reordered
