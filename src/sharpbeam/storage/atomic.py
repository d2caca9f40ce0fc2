"""Put a finished folder where another one stands, so that a kill at any moment leaves a whole folder there."""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux's <fcntl.h> and <linux/fs.h>


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """A new folder to fill, which takes the place of `folder` at the end of the block.

    An error inside leaves the old folder. What killed runs have left beside `folder` is removed after a success.
    Raises OSError, with the name `folder` where none can be made there.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise OSError(error.errno, f"no folder can be made there ({error.strerror})", str(folder)) from error
    lock = _lock(beside)  # tells those who clear up that somebody is at work here
    try:
        yield beside
        beside.chmod(0o755)
        for path in (*(p for p in beside.rglob("*") if p.is_file()), beside):
            _flush(path)
        _put(beside, folder)
        _flush(folder.parent)
    finally:
        try:
            shutil.rmtree(beside, ignore_errors=True)  # after an exchange this is the old folder
        finally:
            if lock is not None:
                os.close(lock)
    _clear(folder)


def _put(beside: Path, folder: Path) -> None:
    """Rename `beside` to `folder`; an old `folder` is at `beside` afterwards, or gone."""
    if not folder.exists():
        os.replace(beside, folder)
    elif not _exchange(beside, folder):  # an old kernel or file system: for a moment there is no folder
        old = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old.", dir=folder.parent))
        os.replace(folder, old / "model")
        os.replace(beside, folder)
        shutil.rmtree(old)


def _exchange(one: Path, other: Path) -> bool:
    """Let two paths change places in one step; False where the system cannot."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError):
        return False
    done: int = rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), ctypes.c_uint(RENAME_EXCHANGE))
    return done == 0


def _clear(folder: Path) -> None:
    """Remove the folders that killed runs have left beside `folder`; those of a run at work are locked."""
    left = re.compile(rf"\.{re.escape(folder.name)}\.(old\.)?[a-z0-9_]{{8}}")  # as tempfile names them
    for path in folder.parent.iterdir():
        if left.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
            lock = _lock(path)
            if lock is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)


def _lock(folder: Path) -> int | None:
    """A descriptor that holds an exclusive lock on `folder`; None where another one does, or there are no locks."""
    try:
        file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return None
    return file


def _flush(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
