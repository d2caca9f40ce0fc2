"""Which files of weights were found sound before, so that gigabytes are not hashed again at every load.

A record in the user's cache holds a file's device, number, size and times of change, and the SHA-256 that its bytes
had. It speaks for the file only while all of these are the same, and is written only for a file that has rested: one
that was changed a moment ago could be changed again within the same tick of the clock, which no time would show. What
cannot be read or written is as if it were not there.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from pathlib import Path

RESTED = 2.0  # seconds since a file was changed
HOME = "QUICKBEAM_CACHE"  # variable that names the cache's folder; "" for none
_SIZE = 1024  # bytes of a record, at most


def known_digest(path: Path) -> str | None:
    """SHA-256 of the weights in `path`, where they were hashed and found finite before and have not changed since."""
    record = _record(path)
    try:
        if record is None:
            return None
        with record.open("rb") as file:
            facts = json.loads(file.read(_SIZE))
        return str(facts["sha256"]) if facts["state"] == file_state(path) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def remember(path: Path, digest: str, state: list[int]) -> None:
    """Note that `path` was sound and had `digest` while it had the `state` of before it was read."""
    record = _record(path)
    if record is None or time.time() - max(state[-2:]) / 1e9 < RESTED:
        return
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=record.parent, delete=False, encoding="utf-8") as beside:
            json.dump({"state": state, "sha256": digest}, beside)
        os.replace(beside.name, record)
    except OSError:
        return


def file_state(path: Path) -> list[int]:
    """What changes when a file does: device, number, size, and times of change in nanoseconds."""
    found = path.stat()
    return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def _record(path: Path) -> Path | None:
    """The file of the record; None where the user wants no cache."""
    home = os.environ.get(HOME)
    if home == "":
        return None
    try:
        folder = Path(home) if home else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "quickbeam"
    except RuntimeError:  # there is no home
        return None
    return folder / "checked" / f"{hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:32]}.json"
