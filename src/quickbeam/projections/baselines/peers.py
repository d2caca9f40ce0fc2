"""Libraries that some baselines stand on; they are not needed to use Quickbeam."""

from __future__ import annotations

import importlib
from typing import Any

from quickbeam.errors import QuickbeamError


def peer(name: str) -> Any:
    """The module `name`; raises QuickbeamError that names the extra to install where it is missing."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise QuickbeamError(
            f"this baseline needs the package {error.name}, which is not installed; run: pip install 'quickbeam[bench]'"
        ) from error
