"""Notes about files, in the user's cache: facts of a file that hold as long as it is not changed.

A note holds the file's device, number, size and times of change, and speaks for it only while all of these are the
same. A note that cannot be read or written is as if it were not there. SHARPBEAM_CACHE names another folder for notes
and for the models of `sharpbeam.hub`, or none if it is empty.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from sharpbeam.storage.atomic import write_text
from sharpbeam.text.lines import read_whole

HOME = "SHARPBEAM_CACHE"  # variable that names the cache's folder; "" for none
_LIMIT = 1 << 16  # bytes of a note, at most


def file_state(path: Path) -> list[int]:
    """Identity of a file's contents: device, number, size, and times of change in nanoseconds."""
    state = path.stat()
    return [state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns]


def read_note(kind: str, path: Path) -> dict[str, Any] | None:
    """The facts of the note of this kind about `path`; None if there is none, or the file has changed since."""
    note = _place(kind, path)
    if note is None:
        return None
    try:
        owner = note.stat().st_uid
        if owner != getattr(os, "geteuid", lambda: owner)():
            return None  # a note of another user may hold anything
        content = json.loads(read_whole(note, _LIMIT))
        return dict(content["facts"]) if content["state"] == file_state(path) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def write_note(kind: str, path: Path, state: list[int], facts: dict[str, Any]) -> None:
    """Note `facts`, which hold for `path` in `state`; an older note of this kind is replaced."""
    note = _place(kind, path)
    if note is None:
        return
    with suppress(OSError):
        note.parent.mkdir(parents=True, exist_ok=True)
        write_text(note, json.dumps({"state": state, "facts": facts}))


def cache_home() -> Path | None:
    """The folder of the user's cache; None if the user wants none."""
    home = os.environ.get(HOME)
    if home == "":
        return None
    try:
        return Path(home) if home else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sharpbeam"
    except RuntimeError:  # there is no home
        return None


def _place(kind: str, path: Path) -> Path | None:
    """The file of the note; None if the user wants no cache."""
    folder = cache_home()
    return folder and folder / kind / f"{hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:32]}.json"
