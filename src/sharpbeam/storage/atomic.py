"""Files and folders written next to their place and renamed, so that a kill at any moment leaves a whole one there."""

from __future__ import annotations

import ctypes
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sharpbeam.errors import OutputError

# In the names of our temporary files and folders, with so many random bytes, so that none of a user's is taken for one.
_MARK, _RANDOM = ".sharpbeam-", 8
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux's <fcntl.h> and <linux/fs.h>


def check_folder(folder: Path, what: str, instead: str) -> None:
    """Raise OutputError, before slow work, where `folder` neither is one that can be written to nor can be made.

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


@contextmanager
def replacing_file(path: Path) -> Iterator[Path]:
    """A new file next to `path` to write to, renamed to `path` at the end of the block; an error leaves the old file.

    It has the permissions of the file that it replaces; without one, those that `open` gives. Files that killed runs
    left next to `path` are removed after a success.
    """
    temporary = _temporary(path)
    held = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with suppress(OSError):
            lock_file(held)  # tells other runs that clean up that this file is in use
        yield temporary
        temporary.chmod(stat.S_IMODE(os.stat(path if path.exists() else held).st_mode))  # a library may make its own
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(held)
    _clear(path)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a whole file, or leave the old one."""
    with replacing_file(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    """Write a whole file in UTF-8 with line feeds, or leave the old one."""
    write_bytes(path, text.encode())


def lock_file(file: int) -> None:
    """Lock an open file or folder until it is closed; nothing on a system without `flock`.

    Raises BlockingIOError where another process holds the lock, another OSError where the file system has no locks.
    """
    try:
        import fcntl  # POSIX only
    except ImportError:
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def lock(path: Path) -> int | None:
    """A descriptor that holds an exclusive lock on a file or folder until it is closed.

    None where another one holds it, where the path cannot be opened, or where the file system has no locks.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        lock_file(file)
    except OSError:
        os.close(file)
        return None
    return file


@contextmanager
def replacing_files(folder: Path, *names: str) -> Iterator[Path]:
    """An empty folder to write files `names` in, which take the place of those in `folder` at the end, in this order.

    An error inside leaves the old files.
    """
    with tempfile.TemporaryDirectory(prefix=".fitted.", dir=folder) as temporary:
        yield Path(temporary)
        for name in names:
            os.replace(Path(temporary) / name, folder / name)


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """A new folder to fill, which takes the place of `folder` at the end of the block.

    An error inside leaves the old folder. Folders that killed runs left next to `folder` are removed after a success.
    Raises OSError, with the name `folder` where none can be made there. A link to a folder stays a link.
    """
    given, folder = folder, Path(os.path.realpath(folder))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = _new_folder(folder)
    except OSError as error:
        raise OSError(error.errno, f"no folder can be made there ({error.strerror})", str(given)) from error
    held = lock(temporary)  # tells other runs that clean up that this folder is in use
    try:
        yield temporary
        temporary.chmod(0o755)
        for path in (*(p for p in temporary.rglob("*") if p.is_file()), temporary):
            _flush(path)
        _put(temporary, folder)
        _flush(folder.parent)
    finally:
        try:
            shutil.rmtree(temporary, ignore_errors=True)  # after an exchange this is the old folder
        finally:
            if held is not None:
                os.close(held)
    _clear(folder)


def _temporary(path: Path) -> Path:
    """A path next to `path`, with a random name that no user gives to a file."""
    return path.with_name(f".{path.name}{_MARK}{secrets.token_hex(_RANDOM)}")


def _new_folder(folder: Path) -> Path:
    """A new folder next to `folder`."""
    temporary = _temporary(folder)
    temporary.mkdir(mode=0o700)
    return temporary


def _put(temporary: Path, folder: Path) -> None:
    """Rename `temporary` to `folder`; an old `folder` is at `temporary` afterwards, or gone."""
    if not folder.exists():
        os.replace(temporary, folder)
    elif not _exchange(temporary, folder):  # an old kernel or file system: for a moment there is no folder
        old = _new_folder(folder)
        os.replace(folder, old / "model")
        os.replace(temporary, folder)
        shutil.rmtree(old)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two paths in one step; False where the system cannot."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError):
        return False
    done: int = rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), ctypes.c_uint(RENAME_EXCHANGE))
    return done == 0


def _clear(made: Path) -> None:
    """Remove the files or folders that killed runs left next to `made`; those of running ones are locked."""
    left = re.compile(rf"\.{re.escape(made.name + _MARK)}[0-9a-f]{{{2 * _RANDOM}}}")
    for path in made.parent.iterdir():
        if left.fullmatch(path.name) and (path.is_dir() or path.is_file()) and not path.is_symlink():
            held = lock(path)
            if held is not None:
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
                os.close(held)


def _flush(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
