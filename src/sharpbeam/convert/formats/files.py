"""Files of other programs: what cannot be read is an error that says so, and bytes are taken from the front."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpbeam.errors import ModelError, SharpbeamError
from sharpbeam.text.lines import check_regular


def reason_of(error: Exception) -> str:
    """The first words of an error."""
    return (" ".join(str(error).split()) or type(error).__name__)[:200].rstrip(".")


@contextmanager
def reading(
    path: Path, kind: str, *damage: type[Exception], reason: Callable[[Exception], str] = reason_of
) -> Iterator[None]:
    """Read the regular file `path`: OSError, and `damage` of what is no `kind`, become ModelError with a reason."""
    try:
        check_regular(path)
        yield
    except SharpbeamError:
        raise
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}.") from error
    except damage as error:
        raise ModelError(f"{path} cannot be read as {kind}: {reason(error)}. Copy or convert it again.") from error


class Bytes:
    """The bytes of a mapped file, taken from the front; ValueError if there are not so many."""

    def __init__(self, path: Path) -> None:
        self._raw, self._offset = np.memmap(path, np.uint8, "r"), 0

    def __len__(self) -> int:
        """How many are left."""
        return len(self._raw) - self._offset

    def take(self, count: int) -> NDArray[np.uint8]:
        """A view of the next `count` bytes."""
        if count > len(self):
            raise ValueError(f"it ends early: {count} bytes should follow byte {self._offset}")
        self._offset += count
        return self._raw[self._offset - count : self._offset]

    def numbers(self, layout: str) -> tuple[Any, ...]:
        """The next numbers, by a layout of `struct`."""
        return struct.unpack(layout, self.take(struct.calcsize(layout)).tobytes())
