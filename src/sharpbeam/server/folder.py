"""The temporary folder of a server, in all its processes; deleted at its end, or when another one starts."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sharpbeam.storage.atomic import lock

PREFIX = "sharpbeam-server-"
YOUNG = 60.0  # seconds in which a folder may not be locked yet


@dataclass(frozen=True)
class Share:
    """One of several processes, and what they have in common."""

    number: int  # of this process
    folder: Path
    pending: Any  # array in shared memory: accepted sentences of each process, which only that one writes


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that is locked while this process or a fork of it lives."""
    _delete_old(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
        handle = lock(Path(name))
        try:
            yield Path(name)
        finally:
            if handle is not None:
                os.close(handle)


def _delete_old(parent: Path) -> None:
    """Delete the folders of servers of this user that were killed."""
    for folder in parent.glob(f"{PREFIX}*") if hasattr(os, "getuid") else ():
        with suppress(OSError):
            facts = folder.lstat()
            if facts.st_uid != os.getuid() or time.time() - facts.st_mtime < YOUNG:
                continue
            handle = lock(folder)
            if handle is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(handle)
