"""The arrays of a .npz file, without pickle: every size is held against the archive's before anything is made."""

from __future__ import annotations

import io
import math
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpbeam.errors import ModelError

_MOST_BYTES = 1 << 36  # of all arrays together
_KINDS = "fiu"
_DAMAGED = (ValueError, zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError, RuntimeError, EOFError)
# What Python's parser of literals raises for a header that is none; MemoryError is its word for too deep.
_BAD_HEADER = (SyntaxError, tokenize.TokenError, MemoryError, TypeError, LookupError, OverflowError)


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays by name; raises ModelError for a damaged file, and for arrays of anything but numbers."""
    try:
        on_disk = path.stat().st_size
        if not on_disk:
            raise ValueError("it is empty")
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if sum(entry.file_size for entry in entries) > min(_MOST_BYTES, 1100 * on_disk):  # deflate's most is 1032
                raise ValueError("its arrays are larger than such a file can hold")
            return {entry.filename.removesuffix(".npy"): _array(archive, entry) for entry in entries}
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}.") from error
    except (*_DAMAGED, *_BAD_HEADER) as error:
        raise ModelError(f"{path} cannot be read as .npz: {error}. Copy the model again.") from error


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> NDArray[Any]:
    raw = archive.read(entry)
    stream = io.BytesIO(raw)
    version = np.lib.format.read_magic(stream)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"{entry.filename!r:.80} is of version {version} of .npy")
    shape, column_major, dtype = read(stream)
    body = raw[stream.tell() :]
    if dtype.hasobject or dtype.kind not in _KINDS or math.prod(shape) * dtype.itemsize != len(body):
        raise ValueError(f"{entry.filename!r:.80} of {dtype} and shape {shape!r:.60} has {len(body)} bytes")
    array = np.frombuffer(body, dtype) if body else np.empty(0, dtype)
    return array.reshape(shape, order="F" if column_major else "C")
