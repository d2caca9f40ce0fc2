"""The arrays of a .npz file, by NumPy's own reader without pickle."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpbeam.errors import ModelError
from sharpbeam.text.lines import check_regular

# Bytes of all arrays, and how many times those of the file they may be: weights hardly compress, and a bomb of zeros is
# a thousand times as large as its file.
_SMALL, _DEFLATED = 1 << 24, 8


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays by name; raises ModelError for a damaged file, and for arrays of anything but numbers."""
    try:
        check_regular(path)
        if not path.stat().st_size:
            raise ValueError("it is empty")
        with zipfile.ZipFile(path) as archive:
            if sum(e.file_size for e in archive.infolist()) > _SMALL + _DEFLATED * path.stat().st_size:
                raise ValueError("its arrays are larger than such a file can hold")
        with np.load(path, allow_pickle=False) as arrays:
            contents = {name: arrays[name] for name in arrays.files}
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}.") from error
    except Exception as error:  # whatever a broken header makes of Python's parser of literals
        reason = str(error) or type(error).__name__
        raise ModelError(f"{path} cannot be read as .npz: {reason[:200]}. Copy the model again.") from error
    for name, array in contents.items():
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
            raise ModelError(f"{path} cannot be read as .npz: {name!r:.80} holds no array of numbers.")
    return contents
