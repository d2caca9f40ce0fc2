"""Packages that only some verbs need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sharpbeam.errors import SharpbeamError


@contextmanager
def needs_extra(verb: str, extra: str) -> Iterator[None]:
    """Imports in this block may miss a package: then raise SharpbeamError that names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("sharpbeam"):
            raise
        raise SharpbeamError(
            f"{verb} needs the package {error.name}, which is not installed; run: pip install 'sharpbeam[{extra}]'"
        ) from error
