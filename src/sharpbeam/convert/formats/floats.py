"""Numbers of foreign files as NumPy has them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def widened(raw: Array, kind: str) -> Array:
    """bfloat16, which NumPy lacks and which is given as uint16, as the same float32; anything else as it is."""
    if kind != "bfloat16":
        return raw
    return (raw.astype(np.uint32) << 16).view(np.float32)
