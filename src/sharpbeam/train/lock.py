"""The lock of a run's folder: two runs that write the same files would spoil both."""

from __future__ import annotations

import os
import weakref
from pathlib import Path

from sharpbeam.errors import SharpbeamError
from sharpbeam.storage.atomic import lock_file


class FolderLock:
    """An exclusive lock on `folder`/lock. The kernel gives it back when the process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        """Take the lock; raises SharpbeamError where another run holds it."""
        file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._close = weakref.finalize(self, os.close, file)
        try:
            lock_file(file)
        except BlockingIOError:
            self.release()
            raise SharpbeamError(
                f"another run is training in {folder}; wait for its end, or give another --output folder."
            ) from None
        except OSError:
            self.release()  # a file system without locks: continue without one

    def release(self) -> None:
        """Give the lock back; a second call does nothing."""
        self._close()
