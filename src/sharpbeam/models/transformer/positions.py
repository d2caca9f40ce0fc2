"""Positions that are not learned: sines and cosines of many periods."""

from __future__ import annotations

from typing import Literal

import numpy as np

from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.types import Floats

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


def position_table(config: TransformerConfig, count: int) -> Floats:
    """The encoding of the first `count` positions of a model, [count, D] float32."""
    return sinusoid(config.positions, config.position_offset, count, config.hidden_dim)
