"""Reading lines of text so that lines in = lines out: only a line feed ends a line, a CR before it belongs to the end.

U+2028, U+0085, a vertical tab and other characters at which Python's `splitlines` would cut stay inside the line.
A last line without a line feed counts, and a byte order mark at the start of an input is dropped.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import os
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Literal

from sharpbeam.errors import InputError

DecodingErrors = Literal["strict", "replace"]  # invalid UTF-8: raise, or put U+FFFD
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
STANDARD_INPUT = "standard input"
_DASH = Path("-")  # the name that stands for standard input


def is_standard_input(path: Path | None) -> bool:
    """Whether this is no file but standard input: None, or `-`."""
    return path is None or path == _DASH


def read_lines(path: Path | None, errors: DecodingErrors = "strict") -> Iterator[str]:
    """The lines of a UTF-8 file (None or `-` = standard input), without line ends; .gz is read through gzip.

    Raises InputError with the name and the line where the file cannot be read, is not UTF-8, or is broken gzip.
    """
    name = STANDARD_INPUT if is_standard_input(path) else str(path)
    done = 0
    try:
        with _open(path) as stream:
            for line in decode_lines(stream, name, errors):
                done += 1
                yield line
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {name} after line {done}: {reason}.") from error


def decode_lines(raw_lines: Iterable[bytes], name: str, errors: DecodingErrors) -> Iterator[str]:
    """Bytes of single lines -> text; `name` stands in errors."""
    for number, raw in enumerate(raw_lines, 1):
        line = raw.removesuffix(b"\n").removesuffix(b"\r")
        if number == 1:
            line = line.removeprefix(_BYTE_ORDER_MARK)
        try:
            yield line.decode("utf-8", errors)
        except UnicodeDecodeError as error:
            raise InputError(
                f"{name}, line {number}: byte {error.start + 1} (0x{line[error.start]:02x}) is not valid UTF-8; "
                f"mend it, or give --errors replace where the command has it."
            ) from error


def read_all(paths: Sequence[Path], errors: DecodingErrors = "strict") -> Iterator[str]:
    """The lines of several files, one file after another; no files = standard input."""
    if not paths:
        yield from read_lines(None, errors)
    for path in paths:
        yield from read_lines(path, errors)


def file_digest(path: Path) -> str:
    """SHA-256 of the bytes of a file, as hexadecimal digits; raises InputError where it cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}.") from error
    return digest.hexdigest()


def check_readable(paths: Sequence[Path]) -> None:
    """Raise InputError for the first file that cannot be read; for a quick answer before slow work.

    Only a regular file is opened to see: a pipe that was opened and closed has lost its writer.
    """
    for path in paths:
        if is_standard_input(path):
            continue
        try:
            mode = path.stat().st_mode
            if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
                path.open("rb").close()
            elif not os.access(path, os.R_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror or error}.") from error


def _open(path: Path | None) -> AbstractContextManager[Iterable[bytes]]:
    if path is None or is_standard_input(path):
        return nullcontext(sys.stdin.buffer)
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")
