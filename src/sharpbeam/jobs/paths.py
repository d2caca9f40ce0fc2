"""Places that a verb will write to, looked at before the slow work."""

from __future__ import annotations

import os
from pathlib import Path

from sharpbeam.errors import OutputError


def check_folder(folder: Path, what: str, instead: str) -> None:
    """Raise OutputError where `folder` neither is one that can be written to nor can be made.

    `what` goes into it, and a person may give `instead`.
    """
    there = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        said = "cannot be written to" if there.is_dir() else "is no folder"
        raise OutputError(f"cannot write {what}: {there} {said}; give {instead}.")


def check_home(file: Path) -> None:
    """Raise OutputError where there is no folder for `file` to be written to."""
    if not file.absolute().parent.is_dir():
        raise OutputError(f"cannot write {file}: there is no folder {file.parent}.")
