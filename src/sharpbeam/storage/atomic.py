"""Files and folders written next to their place and renamed, so that a kill at any moment leaves a whole one there."""

from __future__ import annotations

import ctypes
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sharpbeam.errors import OutputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

POSIX = fcntl is not None  # files have locks, and open ones can be renamed and removed
# In the names of our temporary files and folders, and the random bytes after it, which no file of a user has.
_MARK, _RANDOM = ".sharpbeam-", 8
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux's <fcntl.h> and <linux/fs.h>


def check_folder(folder: Path, what: str, instead: str) -> None:
    """Raise OutputError, before slow work, if `folder` cannot be made or written to.

    `what` is to be written into it; `instead` is the user's way out.
    """
    place = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        fault = "cannot be written to" if place.is_dir() else "is no folder"
        raise OutputError(f"cannot write {what}: {place} {fault}; give {instead}.")


@contextmanager
def replacing_file(path: Path) -> Iterator[Path]:
    """A new file next to `path` to write to, renamed to `path` at the end of the block; an error leaves the old file.

    It is on the disk before. It has the permissions of the file that it replaces; without one, those that `open` gives.
    Files that killed runs left next to `path` are removed after a success. A link is replaced, not what it points to.
    """
    temporary = _temporary(path)
    temporary.touch(exist_ok=False)
    new_mode, descriptor = temporary.stat().st_mode, lock(temporary)  # so other runs that clean up see it is in use
    try:
        yield temporary
        mode = path.stat().st_mode if path.exists() else new_mode
        temporary.chmod(stat.S_IMODE(mode))  # a library may make a file of its own, with another mode
        flush(temporary)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        if descriptor is not None:
            os.close(descriptor)
    _clear(path)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a whole file, or leave the old one."""
    with replacing_file(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    """Write a whole file in UTF-8 with line feeds, or leave the old one."""
    write_bytes(path, text.encode())


def lock_file(file: int) -> None:
    """Lock an open file or folder until it is closed; nothing on a system, or a file system, without `flock`.

    Raises BlockingIOError if another process holds the lock.
    """
    try:
        if POSIX:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # as Lustre has it where it is mounted without locks
        pass


def lock(path: Path) -> int | None:
    """A descriptor that holds an exclusive lock on a file or folder until it is closed.

    None if another one holds it, the path cannot be opened, or the system has no locks.
    """
    if not POSIX:
        return None
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return None
    return file


@contextmanager
def replacing_files(folder: Path, *names: str) -> Iterator[Path]:
    """An empty folder to write files `names` in, which take the place of those in `folder` at the end, in this order.

    An error inside leaves the old files.
    """
    with _folder_next_to(folder / names[0]) as temporary:
        yield temporary
        for name in names:
            flush(temporary / name)
            os.replace(temporary / name, folder / name)


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """A new folder to fill, which takes the place of `folder` at the end of the block.

    An error inside leaves the old folder. Folders that killed runs left next to `folder` are removed after a success.
    Raises OSError, with the name `folder`, if none can be made there. A link to a folder stays a link.
    """
    name, folder = str(folder), Path(os.path.realpath(folder))
    with ExitStack() as stack:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            temporary = stack.enter_context(_folder_next_to(folder))
        except OSError as error:
            raise OSError(error.errno, f"no folder can be made there ({error.strerror})", name) from error
        yield temporary
        temporary.chmod(0o755)
        for path in (*(p for p in temporary.rglob("*") if p.is_file()), temporary):
            flush(path)
        _put(temporary, folder)
        flush(folder.parent)


@contextmanager
def _folder_next_to(path: Path) -> Iterator[Path]:
    """A new folder next to `path`, which is removed at the end; after a success also those that killed runs left."""
    temporary = _temporary(path)
    temporary.mkdir(mode=0o700)
    descriptor = lock(temporary)  # tells other runs that clean up that this folder is in use
    try:
        yield temporary
    finally:
        try:
            shutil.rmtree(temporary, ignore_errors=True)  # after an exchange this is the old folder
        finally:
            if descriptor is not None:
                os.close(descriptor)
    _clear(path)


def _temporary(path: Path) -> Path:
    """A path next to `path`, with a random name that no user gives to a file."""
    return path.with_name(f".{path.name}{_MARK}{secrets.token_hex(_RANDOM)}")


def _put(temporary: Path, folder: Path) -> None:
    """Rename `temporary` to `folder`; an old `folder` is at `temporary` afterwards, or gone."""
    if not folder.exists():
        os.replace(temporary, folder)
    elif not _exchange(temporary, folder):  # an old kernel or file system: for a moment there is no folder
        old = _temporary(folder)
        os.replace(folder, old)
        os.replace(temporary, folder)
        shutil.rmtree(old)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two paths in one step; False if the system cannot."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):  # TypeError on Windows
        return False
    done: int = rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), ctypes.c_uint(RENAME_EXCHANGE))
    return done == 0


def _clear(path: Path) -> None:
    """Remove the files or folders that killed runs left next to `path`; those of running ones are locked."""
    temporary = re.compile(rf"\.{re.escape(path.name + _MARK)}[0-9a-f]{{{2 * _RANDOM}}}")
    for other in path.parent.iterdir():
        if not temporary.fullmatch(other.name) or other.is_symlink() or not (other.is_dir() or other.is_file()):
            continue
        if (descriptor := lock(other)) is not None:
            if other.is_dir():
                shutil.rmtree(other, ignore_errors=True)
            else:
                other.unlink(missing_ok=True)
            os.close(descriptor)


def flush(path: Path) -> None:
    """Wait until a file, or on POSIX a folder, is on the disk."""
    if POSIX or not path.is_dir():
        file = os.open(path, os.O_RDONLY if POSIX else os.O_RDWR)
        try:
            os.fsync(file)
        finally:
            os.close(file)
