"""Guards of a run: a lock on its folder, and an end between two steps on Ctrl-C, so that its files are whole."""

from __future__ import annotations

import os
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from sharpbeam.errors import SharpbeamError
from sharpbeam.storage.atomic import lock_file

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """Within the block the first SIGINT or SIGTERM sets the event; another one raises KeyboardInterrupt at once.

    Signals reach the main thread only; in any other thread this does nothing.
    """
    stop, main = threading.Event(), threading.current_thread() is threading.main_thread()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, handle) for number in SIGNALS if main}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def lock_folder(owner: object, folder: Path) -> Callable[[], object]:
    """Lock `folder` until the function that is returned is called, `owner` is gone, or the process ends.

    Two runs that write the same files would spoil both: raises SharpbeamError if another one holds the lock.
    """
    file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    release = weakref.finalize(owner, os.close, file)
    try:
        lock_file(file)
    except BlockingIOError:
        release()
        raise SharpbeamError(
            f"another run is training in {folder}; wait for its end, or give another --output folder."
        ) from None
    except OSError:
        release()  # a file system without locks: continue without one
    return release
