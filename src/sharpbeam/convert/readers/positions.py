"""Tables of position encodings: sinusoids, which need not be stored, or learned ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from sharpbeam.convert.formats.weights import Tensor, Tensors
from sharpbeam.errors import ModelError
from sharpbeam.models.transformer.positions import Sinusoid, sinusoid
from sharpbeam.types import Floats

CLOSE = 5e-3  # bfloat16 tables differ by 4e-3; the two kinds differ by far more a few hundred positions on
_FIRSTS = (0, 1, 2)  # positions that tables begin with


class Table(NamedTuple):
    """The sinusoids of a table."""

    kind: Sinusoid
    first: int  # position
    interleaved: bool  # sines and cosines alternate, instead of all sines first


def add_positions(tensors: Tensors, tables: Sequence[Floats], dim: int) -> tuple[dict[str, Any], bool]:
    """The facts of the tables of both sides, [n, dim], and whether their sines and cosines are interleaved.

    Tables that are no sinusoids are added to the tensors. Raises ModelError for tables of different sizes.
    """
    sizes = {table.shape for table in tables}
    if any(len(size) != 2 or size[1] != dim for size in sizes):
        raise ModelError(f"{tensors.weights.path}: the tables of positions must be [n, {dim}], but are {sizes}.")
    kinds = {recognize(table) for table in tables}
    if len(kinds) == 1 and (table := kinds.pop()) is not None:
        return {"positions": table.kind, "position_offset": table.first}, table.interleaved
    if len(tables) != 2 or len(sizes) > 1:
        raise ModelError(
            f"{tensors.weights.path}: the learned tables of both sides must have one size, but are {sizes}."
        )
    return add_learned(tensors, tables), False


def add_learned(tensors: Tensors, tables: Sequence[Floats]) -> dict[str, Any]:
    """The facts of learned tables, which are added to the tensors."""
    tensors["source_positions"], tensors["target_positions"] = tables
    return {"positions": "learned", "max_positions": len(tables[0])}


def recognize(table: Floats) -> Table | None:
    """The sinusoids of a table [n, dim]; None for another table."""
    count, dim = table.shape
    if count < 2 or dim % 2 or dim < 4:
        return None
    samples = np.unique(np.concatenate([np.arange(min(count, 64)), [count // 2, count - 1]]))
    orders = {False: table[samples], True: table[samples][:, sines_first(dim)]}
    for interleaved, kind, first in product(orders, get_args(Sinusoid), _FIRSTS):
        rows = sinusoid(kind, first, count, dim)[samples]
        if np.abs(rows - orders[interleaved]).max() < CLOSE:
            return Table(kind, first, interleaved)
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
