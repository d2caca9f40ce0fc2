"""Arrays as other programs store them: of types that NumPy has, of bfloat16, or quantized with scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpbeam.storage.tensors import Int8Matrix
from sharpbeam.types import Floats

Array = NDArray[Any]


@dataclass(frozen=True)
class BFloat16:
    """An array of bfloat16, which NumPy lacks, by its bits."""

    bits: NDArray[np.uint16]

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self.bits.shape

    def values(self) -> Floats:
        """The same numbers as float32."""
        return (self.bits.astype(np.uint32) << 16).view(np.float32)


Stored = Array | BFloat16 | Int8Matrix
