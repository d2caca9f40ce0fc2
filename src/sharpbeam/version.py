"""The version of the installed program."""

from __future__ import annotations


def program_version() -> str:
    """The version of the installed package, or "source" when it runs from a source tree without being installed."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    try:
        return version("sharpbeam")
    except PackageNotFoundError:
        return "source"
