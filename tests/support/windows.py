"""Imitation of Windows for a process of a test: `imitate()` before sharpbeam is imported.

Modules and functions that only POSIX has are gone, folders cannot be opened, open files can be neither renamed nor
removed, only sockets can be waited for.
"""

from __future__ import annotations

import mmap
import os
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any

MODULES = ("fcntl", "grp", "pwd", "pty", "readline", "resource", "syslog", "termios", "tty", "uvloop")
GONE = {
    os: (
        "O_CLOEXEC O_DIRECTORY O_NOCTTY O_NOFOLLOW O_NONBLOCK O_SYNC chown chroot fchmod fchown fork forkpty getgid "
        "getloadavg getuid killpg mkfifo nice pread preadv pwrite register_at_fork sched_getaffinity setsid statvfs "
        "sysconf uname"
    ),
    signal: "SIGALRM SIGCHLD SIGHUP SIGKILL SIGPIPE SIGUSR1 SIGUSR2 SIGXCPU alarm pthread_sigmask setitimer sigwait",
    select: "epoll poll",
    mmap: "MADV_DONTNEED MADV_SEQUENTIAL MAP_PRIVATE MAP_SHARED PROT_READ PROT_WRITE",
}


def _is_open(path: Any) -> bool:
    """Whether this process has the file open, or a file of the folder."""
    place = os.path.realpath(path)
    for number in _listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        if target == place or target.startswith(place + os.sep):
            return True
    return any(line.rstrip("\n").endswith(place) for line in Path("/proc/self/maps").open())


_listdir, _open, _fsync = os.listdir, os.open, os.fsync


def _refusing(call: Any, *places: int) -> Any:
    """`call`, which refuses arguments `places` that are names of open files."""

    def checked(*arguments: Any, **options: Any) -> Any:
        for place in places:
            if len(arguments) > place and not options.get("dir_fd") and _is_open(arguments[place]):
                raise PermissionError(13, "the file is open (as on Windows)", arguments[place])
        return call(*arguments, **options)

    return checked


def _open_file(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    if os.path.isdir(path) and sys._getframe(1).f_globals.get("__name__", "").startswith("sharpbeam"):
        raise PermissionError(13, "a folder cannot be opened (as on Windows)", path)
    return _open(path, flags, mode, dir_fd=dir_fd)


def _flush(file: int) -> None:
    flags = int(Path(f"/proc/self/fdinfo/{file}").read_text().split("flags:")[1].split()[0], 8)
    if flags & 3 == os.O_RDONLY:
        raise OSError(9, "the file is not open for writing (as on Windows)")
    _fsync(file)


def _select(read: Any, write: Any, error: Any, timeout: float | None = None) -> Any:
    if not all(isinstance(each, socket.socket) for each in (*read, *write, *error)):
        raise OSError(10038, "not a socket (as on Windows)")
    return [], [], []


def imitate() -> None:
    """Take away from this process what Windows does not have; third-party packages are imported before."""
    import asyncio
    import multiprocessing.connection
    import shutil
    import subprocess
    import tempfile

    import numpy
    import rich.console
    import safetensors.numpy
    import sentencepiece

    assert asyncio and multiprocessing.connection and subprocess and tempfile
    assert numpy and rich.console and safetensors.numpy and sentencepiece
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]  # importing it raises ImportError
    os.replace, os.rename = _refusing(os.replace, 0, 1), _refusing(os.rename, 0, 1)
    os.unlink, os.remove = _refusing(os.unlink, 0), _refusing(os.remove, 0)
    os.open, os.fsync, select.select = _open_file, _flush, _select
    shutil._use_fd_functions = False  # type: ignore[attr-defined]  # rmtree opens no folders there
    os.process_cpu_count = os.cpu_count  # type: ignore[attr-defined]  # of Python 3.13
    for module, names in GONE.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
