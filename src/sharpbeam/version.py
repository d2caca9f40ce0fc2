"""The version of the installed program."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def program_version() -> str:
    """The version of the installed package, or "source" when it runs from a source tree without being installed."""
    try:
        return version("sharpbeam")
    except PackageNotFoundError:
        return "source"
