"""Positions that are not learned: sines and cosines of many periods."""

from __future__ import annotations

import numpy as np

from quickbeam.models.transformer.config import TransformerConfig
from quickbeam.types import Floats


def position_table(config: TransformerConfig, count: int) -> Floats:
    """What the first `count` positions add to a word, [count, D] float32: D/2 sines, then D/2 cosines.

    Of (position_offset + p) times 10000^(-2i/D), or 10000^(-i/(D/2 - 1)) for "sinusoidal-t2t"; computed in float64.
    """
    half = config.hidden_dim // 2
    steps = half - 1 if config.positions == "sinusoidal-t2t" else half
    frequency = 10000.0 ** -(np.arange(half) / steps)
    angle = (config.position_offset + np.arange(count))[:, None] * frequency
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=1).astype(np.float32)
