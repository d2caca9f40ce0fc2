"""Archives of models: .tar, .tar.gz and .zip, unpacked as the plain files of one folder."""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from sharpbeam.errors import ModelError
from sharpbeam.storage.atomic import replacing_file

MOST_FILES, MOST_TIMES = 200, 50  # files, and bytes for each byte of the archive
CHUNK = 1 << 20
Member = tuple[PurePosixPath, Any]


def unpack(archive: Path, folder: Path) -> None:
    """Write the files of `archive` to `folder`: those of the folder in it that is nearest to its top.

    Links, devices and folders in it are left out, and names lead nowhere else. Raises ModelError for what is no
    archive, or unpacks to too much.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with _opened(archive) as (members, open_member):
            top = min((len(path.parts) for path, _ in members), default=0)
            home = next((path.parent for path, _ in members if len(path.parts) == top), None)
            left = MOST_TIMES * archive.stat().st_size + CHUNK
            for path, member in members:
                if path.parent == home:
                    left -= _copied(open_member(member), folder / path.name, left)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, FileExistsError, RuntimeError) as error:
        raise ModelError(f"{archive.name} cannot be unpacked: {error}.") from error


@contextmanager
def _opened(archive: Path) -> Iterator[tuple[list[Member], Any]]:
    """The plain files of an archive by path, and the function that opens one."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            every = [(PurePosixPath(info.filename), info) for info in packed.infolist() if not info.is_dir()]
            yield _checked(every), packed.open
    elif tarfile.is_tarfile(archive):
        with tarfile.open(archive) as tar:
            files = []
            for info in tar:
                files += [(PurePosixPath(info.name), info)] if info.isreg() else []
                _checked(files)
            yield _checked(files), tar.extractfile
    else:
        raise ModelError(f"{archive.name} is no .tar, .tar.gz or .zip archive.")


def _checked(members: list[Member]) -> list[Member]:
    """Raise ModelError for too many files."""
    if len(members) > MOST_FILES:
        raise ModelError(f"the archive holds more than {MOST_FILES} files; that is no model.")
    return [member for member in members if member[0].name not in ("", "..") and "\\" not in member[0].name]


def _copied(file: IO[bytes], to: Path, most: int) -> int:
    """Write a file of an archive; its bytes."""
    count = 0
    with file, to.open("xb") as out:
        while data := file.read(CHUNK):
            count += len(data)
            if count > most:
                raise ModelError("the archive unpacks to far more than it has; that is no model.")
            out.write(data)
    return count


def pack(folder: Path, archive: Path) -> None:
    """Write the files of `folder` to `archive`, a .tar."""
    with replacing_file(archive) as temporary, tarfile.open(temporary, "w") as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, f"{folder.name}/{path.name}", recursive=False)
