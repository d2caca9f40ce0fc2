"""Archives of models: .tar, .tar.gz and .zip, unpacked as the plain files of one folder."""

from __future__ import annotations

import errno
import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any

from sharpbeam.errors import ModelError

MOST_FILES, MOST_TIMES = 200, 50  # files, and bytes for each byte of the archive
CHUNK = 1 << 18
_BROKEN = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, lzma.LZMAError)


def unpack(archive: Path, folder: Path) -> None:
    """Write the files of `archive` to `folder`: those of the folder in it that is nearest to its top.

    Links, devices and folders in it are left out, and names lead nowhere else. Raises ModelError for what is no
    archive, or unpacks to too much.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with ExitStack() as opened:
            members = list(islice(_members(archive, opened), MOST_FILES + 1))
            if len(members) > MOST_FILES:
                raise ModelError(f"the archive holds more than {MOST_FILES} files; that is no model.")
            home = min((path.parent for path, _ in members), key=lambda path: len(path.parts), default=None)
            left = MOST_TIMES * archive.stat().st_size + (1 << 20)
            for path, open_member in members:
                if path.parent == home:
                    fault = "the archive unpacks to far more than it has; that is no model."
                    with open_member() as file, (folder / path.name).open("xb") as out:
                        left -= copy(file, out, left, fault)
    except (*_BROKEN, EOFError, OSError, RuntimeError, ValueError) as error:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise ModelError(f"{archive.name} cannot be unpacked: {error}.") from error


def _members(archive: Path, opened: ExitStack) -> Iterator[tuple[PurePosixPath, Callable[[], Any]]]:
    """The paths of the plain files of an archive, and what opens each."""
    files: Iterator[tuple[str, Any]]
    if zipfile.is_zipfile(archive):
        packed = opened.enter_context(zipfile.ZipFile(archive))
        files = ((info.filename, partial(packed.open, info)) for info in packed.infolist() if not info.is_dir())
    elif tarfile.is_tarfile(archive):
        tar = opened.enter_context(tarfile.open(archive))  # noqa: SIM115 (the stack closes it)
        files = ((info.name, partial(tar.extractfile, info)) for info in tar if info.isreg())
    else:
        raise ModelError(f"{archive.name} is no .tar, .tar.gz or .zip archive.")
    for name, open_member in files:
        path = PurePosixPath(name)
        if path.name not in ("", "..") and "\\" not in path.name:
            yield path, open_member


def copy(file: IO[bytes], out: IO[bytes], most: int, fault: str, report: Callable[[int], None] = lambda _: None) -> int:
    """Write the rest of a file to another one; its bytes. Raises ModelError with `fault` for more than `most`."""
    count = 0
    while data := file.read(CHUNK):
        count += len(data)
        if count > most:
            raise ModelError(fault)
        out.write(data)
        report(len(data))
    return count
