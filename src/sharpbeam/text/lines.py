"""Reading lines of text so that lines in = lines out: only a line feed ends a line, a CR before it belongs to the end.

U+2028, U+0085, a vertical tab and other characters at which Python's `splitlines` would cut stay inside the line.
A last line without a line feed counts, and a byte order mark at the start of an input is dropped.
"""

from __future__ import annotations

import codecs
import errno
import gzip
import hashlib
import io
import os
import re
import select
import stat
import sys
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import zip_longest
from pathlib import Path
from typing import Literal, Protocol, cast

from sharpbeam.errors import InputError, SharpbeamError, failing, needs_extra
from sharpbeam.options.schema import choice, require

Pair = tuple[str, str]
DecodingErrors = Literal["strict", "replace"]  # bytes that are not of the encoding: raise, or put U+FFFD
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
STANDARD_INPUT = "standard input"
MOST_BYTES = 64 << 20  # of a line: more is no sentence, and may be a few compressed bytes that fill the memory
_DASH = Path("-")  # the name that stands for standard input
# Those of the Encoding Standard, by Python's names. Python has others, which no text is in and which take long. In all
# of these a line feed is one byte, as in ASCII.
_KNOWN = re.compile(
    r"utf-8|ascii|cp(866|874|932|949|950|125\d)|iso8859-\d+|koi8-[ru]|mac-(roman|cyrillic)|gb(k|2312|18030)|"
    r"big5(hkscs)?|euc_(jp|kr)|shift_jis|iso2022_jp"
)


class _Stream(Protocol):
    def readline(self, limit: int, /) -> bytes: ...


def is_standard_input(path: Path | None) -> bool:
    """Whether this is no file but standard input: None, or `-`."""
    return path is None or path == _DASH


def read_lines(
    path: Path | None,
    errors: DecodingErrors = "strict",
    standard_input: StandardInput | None = None,
    encoding: str = "utf-8",
) -> Iterator[str]:
    """The lines of a text file (None or `-` = standard input), without line ends; .gz and .zst are unpacked.

    Raises InputError with the name and the line if the file cannot be read, is not of its `encoding`, is broken
    gzip, or has a line of more than MOST_BYTES.
    """
    name = STANDARD_INPUT if is_standard_input(path) else str(path)
    count = 0
    try:
        with _open(path, standard_input) as stream:
            while raw := stream.readline(MOST_BYTES + 1):
                if len(raw) > MOST_BYTES:
                    raise EOFError(f"the next line has more than {MOST_BYTES >> 20} MiB; split it into sentences")
                line = raw.removesuffix(b"\n").removesuffix(b"\r")
                if not count and encoding == "utf-8":
                    line = line.removeprefix(_BYTE_ORDER_MARK)
                text, count = line.decode(encoding, errors), count + 1
                yield text
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name}, line {count + 1}: byte {error.start + 1} (0x{error.object[error.start]:02x}) is not valid "
            f"{encoding.upper()}; convert the text (iconv -f latin1 -t utf-8, or -f utf-16), or name its encoding, as "
            "--encoding latin-1, where there is such an option."
        ) from error
    except _failures() as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {name} after line {count}: {reason}.") from error


class StandardInput:
    """The lines of standard input, which tells whether the next one is there already: a program may wait for answers.

    It reads the file descriptor itself, since Python's buffer does not tell how much it holds.
    """

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()  # whole ones that were read
        self._rest: list[bytes] = []  # of the last one
        self._ended = False
        self._file = -1  # until the first line is asked for

    def ready(self) -> bool:
        """Whether the next line can be read without waiting, as it can unless standard input is being read."""
        try:
            return bool(self._lines or self._ended or self._file < 0 or select.select([self._file], [], [], 0)[0])
        except OSError:  # Windows asks sockets only
            return not os.isatty(self._file)

    def readline(self, limit: int) -> bytes:
        """The next line with its line feed, which the last one may lack; empty at the end; about `limit` bytes."""
        if self._file < 0:
            self._file = sys.stdin.fileno()
        size = 0
        while not self._lines and not self._ended and size <= limit:
            block = os.read(self._file, 1 << 16)
            size += len(block)
            self._ended = not block
            first, *others = block.split(b"\n")
            self._rest.append(first)
            for part in others:
                self._lines.append(b"".join(self._rest) + b"\n")
                self._rest = [part]
        if self._lines:
            return self._lines.popleft()
        rest, self._rest = b"".join(self._rest), []
        return rest


class TextInput:
    """The lines of several files, one file after another; without files those of standard input, once."""

    def __init__(self, files: Sequence[Path], errors: DecodingErrors = "strict", encoding: str = "utf-8") -> None:
        """Check all of them, before any slow work; raises OptionError, or InputError for a file."""
        self._errors, self.encoding = choice("errors", errors, DecodingErrors), check_encoding(encoding)
        check_readable(files)
        self._files, self._stdin = files, StandardInput()
        self.ready = self._stdin.ready

    def __iter__(self) -> Iterator[str]:
        for path in self._files or [_DASH]:
            yield from read_lines(path, self._errors, self._stdin, self.encoding)


def read_whole(path: Path, failure: type[SharpbeamError], most: int = 1 << 28) -> bytes:
    """The bytes of a file; `failure` also for more than `most`, and for a pipe or device, which may not end."""
    with failing(failure, f"read {path}"):
        check_regular(path)
        if (size := path.stat().st_size) > most:
            raise failure(f"cannot read {path}: it has {size} bytes, and such a file at most {most}.")
        return path.read_bytes()


def check_regular(path: Path) -> None:
    """Raise OSError for a pipe, device or folder: reading may never end, or opening wait for ever."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))


def file_digest(path: Path) -> str:
    """SHA-256 of the bytes of a file, as hexadecimal digits; raises InputError if it cannot be read."""
    digest = hashlib.sha256()
    with failing(InputError, f"read {path}"):
        check_regular(path)
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def check_readable(paths: Sequence[Path]) -> None:
    """Raise InputError for the first file that cannot be read; for a quick answer before slow work.

    Only a regular file is opened to see: a pipe that was opened and closed has lost its writer.
    """
    for path in paths:
        if is_standard_input(path):
            continue
        with failing(InputError, f"read {path}"):
            mode = path.stat().st_mode
            if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
                path.open("rb").close()
            elif not os.access(path, os.R_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _open(path: Path | None, standard_input: StandardInput | None) -> AbstractContextManager[_Stream]:
    if path is None or is_standard_input(path):
        return nullcontext(standard_input or sys.stdin.buffer)
    if path.suffix == ".zst":
        with needs_extra("reading .zst files", "bulk"):
            import zstandard
        return cast("AbstractContextManager[_Stream]", io.BufferedReader(zstandard.open(path, "rb")))
    if path.suffix != ".gz":
        return path.open("rb")
    if path.is_file() and not path.stat().st_size:
        raise EOFError("the file is empty, and not even an empty gzip file is that short")
    return gzip.open(path, "rb")


def _failures() -> tuple[type[Exception], ...]:
    """Errors of reading a file, with that of zstandard if it was imported."""
    module = sys.modules.get("zstandard")
    return (OSError, EOFError, zlib.error, *((module.ZstdError,) if module else ()))


def file_pairs(source: Path, target: Path, encoding: str = "utf-8") -> Iterator[Pair]:
    """(source, target) lines of two files; InputError if one of them ends before the other."""
    lines = zip_longest(*(read_lines(path, encoding=encoding) for path in (source, target)))
    for number, (left, right) in enumerate(lines, 1):
        if left is None or right is None:
            shorter, longer = (source, target) if left is None else (target, source)
            raise InputError(
                f"{shorter} has {number - 1} lines, but {longer} has more; they must have the same number."
            )
        yield left, right


def column_pairs(
    path: Path | None,
    source_column: int,
    target_column: int,
    standard_input: StandardInput | None = None,
    encoding: str = "utf-8",
    others: bool = True,
) -> Iterator[Pair]:
    """(source, target) from columns, counted from 0, of tab-separated lines (None = standard input), with `others`."""
    last = max(source_column, target_column)
    for number, line in enumerate(read_lines(path, "strict", standard_input, encoding), 1):
        columns = line.split("\t")
        if len(columns) <= last or (len(columns) > last + 1 and not others):
            raise InputError(
                f"{path or STANDARD_INPUT}, line {number}: columns 0 to {last} are needed, separated by tabs; "
                f"the line has {len(columns)}."
            )
        yield columns[source_column], columns[target_column]


def known_encoding(name: str) -> str | None:
    """Python's name of an encoding that has several, such as latin-1; None for one that is not known."""
    try:
        codec = codecs.lookup(name).name
    except (LookupError, ValueError):
        return None
    return codec if _KNOWN.fullmatch(codec) else None


def check_encoding(name: str) -> str:
    """The same; raises OptionError for one that is not known."""
    codec = known_encoding(name)
    require(codec is not None, "encoding", name, "an encoding of text, such as utf-8, latin-1 or cp1252, not utf-16")
    return codec or ""
