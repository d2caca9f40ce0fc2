"""Which files of weights were found sound before, so that gigabytes are not hashed again at every load.

A note in the user's cache (`notes.py`) holds the SHA-256 of a file's bytes. It is written only for a file that has
rested: one that was changed a moment ago could be changed again within the same tick of the clock, which no time would
show.
"""

from __future__ import annotations

import time
from pathlib import Path

from sharpbeam.storage.cache import read_note, write_note

RESTED = 2.0  # seconds since a file was changed
_KIND = "checked"


def known_digest(path: Path) -> str | None:
    """SHA-256 of the weights in `path`, where they were hashed and found finite before and have not changed since."""
    note = read_note(_KIND, path)
    return None if note is None else str(note.get("sha256"))


def remember(path: Path, digest: str, state: list[int]) -> None:
    """Note that `path` was sound and had `digest` while it had the `state` of before it was read."""
    if time.time() - max(state[-2:]) / 1e9 >= RESTED:
        write_note(_KIND, path, state, {"sha256": digest})
