"""Libraries that some baselines stand on; they are not needed to use Sharpbeam."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

from sharpbeam.errors import SharpbeamError


def peer(name: str) -> Any:
    """The module `name`; raises SharpbeamError that names the extra to install where it is missing."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise SharpbeamError(
            f"this baseline needs the package {error.name}, which is not installed; run: pip install 'sharpbeam[bench]'"
        ) from error


@cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of arrays as machine code: for what the papers have in C++."""
    made: Callable[..., Any] = peer("numba").njit(fastmath=True)(function)
    return made
