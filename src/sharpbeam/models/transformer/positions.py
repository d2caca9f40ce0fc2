"""Positions: sines and cosines of many periods, and the buckets of relative ones."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from sharpbeam.types import Floats, Ids

Sinusoid = Literal["sinusoidal", "sinusoidal-t2t"]


def sinusoid(kind: str, first: int, count: int, dim: int) -> Floats:
    """The encoding of positions from `first`, [count, dim] float32: dim/2 sines, then dim/2 cosines.

    Of the position times 10000^(-2i/dim), or 10000^(-i/(dim/2 - 1)) for "sinusoidal-t2t"; computed in float64.
    """
    half = dim // 2
    steps = half - 1 if kind == "sinusoidal-t2t" else half
    frequency = 10000.0 ** -(np.arange(half) / steps)
    angle = np.arange(first, first + count)[:, None] * frequency
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=1).astype(np.float32)


def relative_buckets(count: int, distance: int, both: bool) -> Ids:
    """The bucket of each relative position (key - query) from -distance to distance, [2 distance + 1] int32.

    Those that are further away are in the buckets of the ends. Half of the buckets are for later keys where `both`
    directions are seen, else all of them are for earlier ones. Half of a direction's buckets hold one distance each,
    the others distances that grow as a logarithm (Raffel et al. 2020), in float32 as Hugging Face's T5 has it.
    """
    relative = np.arange(-distance, distance + 1, dtype=np.int32)
    count, size = (count // 2, np.abs(relative)) if both else (count, np.maximum(-relative, 0))
    exact = count // 2
    ratio = np.log(np.maximum(size, exact).astype(np.float32) / np.float32(exact))
    steps = ratio / np.float32(math.log(distance / exact)) * np.float32(count - exact)
    bucket = np.where(size < exact, size, np.minimum(exact + steps.astype(np.int32), count - 1))
    buckets: Ids = (bucket + count * (both & (relative > 0))).astype(np.int32)
    return buckets
