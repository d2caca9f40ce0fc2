"""Files over HTTPS: resumed where they broke off, unpacked, checked by size and digest, renamed when they are right.

The variables of urllib hold: HTTPS_PROXY, NO_PROXY, SSL_CERT_FILE. SHARPBEAM_MIRROR is an address that stands before
the host of each: https://mirror/huggingface.co/...; a copy on a disk, file:///media/models, works too.
SHARPBEAM_OFFLINE refuses all.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from sharpbeam.errors import InputError, ModelError, needs_extra

MIRROR, OFFLINE = "SHARPBEAM_MIRROR", "SHARPBEAM_OFFLINE"
TIMEOUT, WAITS = 20.0, (0.5, 2.0, 5.0)  # seconds without an answer, and before each next try
CHUNK = 1 << 18
MOST_JSON = 64 << 20  # bytes of a registry
MOST_BYTES = 64 << 30  # of a file whose size no registry states
Report = Callable[[int], None]  # is told how many bytes came


@dataclass(frozen=True)
class File:
    """A file to fetch."""

    url: str
    name: str  # here
    size: int | None = None  # bytes, unpacked
    sha256: str = ""  # of the unpacked file; "" where the registry states none
    git: str = ""  # its SHA-1 as git has it
    packing: str = ""  # "gz", "zst"
    transfer: int | None = None  # bytes that are fetched

    @property
    def checked(self) -> bool:
        """Whether there is a digest."""
        return bool(self.sha256 or self.git)


def is_offline() -> bool:
    """Whether nothing may be fetched."""
    return os.environ.get(OFFLINE, "") not in ("", "0")


def read_url(url: str) -> bytes:
    """The answer to `url`, at most MOST_JSON bytes. Raises InputError."""

    def read(answer: HTTPResponse) -> bytes:
        data = answer.read(MOST_JSON + 1)
        if len(data) > MOST_JSON:
            raise ModelError(f"{url} sends more than {MOST_JSON >> 20} MiB; that is no list of models.")
        if (length := answer.headers.get("Content-Length")) and len(data) < int(length):
            raise HTTPException("the connection broke off")
        return data

    return cast(bytes, _tried(url, lambda: _open(url), read))


def fetch(file: File, to: Path, report: Report = lambda _: None) -> None:
    """Fetch `file` to the path `to`, or continue with what an earlier run left next to it.

    Raises InputError where it cannot be had, ModelError where it is not what the registry states.
    """
    part = to.with_name(f"{to.name}.part")
    resumed = part.exists()
    for _ in range(2):
        if not file.checked:
            part.unlink(missing_ok=True)  # what could not be checked is not continued
        if resumed and part.exists():
            report(part.stat().st_size)
        _tried(file.url, lambda: _open(file.url, _length(part)), lambda answer: _append(answer, file, part, report))
        unpacked = _unpacked(file, part)
        fault = _fault(file, unpacked)
        if not fault:
            os.replace(unpacked, to)
            part.unlink(missing_ok=True)
            return
        part.unlink(missing_ok=True)
        unpacked.unlink(missing_ok=True)
        if not resumed:
            break
        resumed = False  # the file changed since; once more from its beginning
    raise ModelError(f"{file.url} is not what its registry states: {fault}. Nothing was kept; try again, or later.")


def _tried(url: str, open_it: Callable[[], HTTPResponse | None], use: Callable[[HTTPResponse], Any]) -> Any:
    """`use` of an answer; what may pass is tried again. Raises InputError."""
    for wait in (*WAITS, None):
        try:
            answer = open_it()
            if answer is None:  # it is complete
                return None
            with answer:
                return use(answer)
        except HTTPError as error:
            if wait is None or (error.code < 500 and error.code != 429):
                raise InputError(f"cannot fetch {url}: {_status(error)}.") from error
        except (OSError, HTTPException) as error:
            if getattr(error, "errno", None) == errno.ENOSPC:
                raise
            if wait is None or isinstance(getattr(error, "reason", None), (FileNotFoundError, ConnectionRefusedError)):
                reason = getattr(error, "reason", None) or error
                raise InputError(
                    f"cannot fetch {url}: {str(reason).rstrip('.') or type(reason).__name__}. Check the network, "
                    f"HTTPS_PROXY and {MIRROR}; what is in the cache works without (sharpbeam models list)."
                ) from error
        time.sleep(wait)
    raise AssertionError  # the last try returns or raises


def _status(error: HTTPError) -> str:
    if error.code in (401, 403):
        return f"it is not for everyone (HTTP {error.code}); for the Hugging Face hub set HF_TOKEN"
    return "there is none of that name (HTTP 404)" if error.code == 404 else f"HTTP {error.code} {error.reason}"


def _open(url: str, begin: int = 0) -> HTTPResponse | None:
    """An answer with the bytes of `url` from `begin` on; None if there are no more."""
    scheme, host = urlsplit(url)[:2]
    if scheme not in ("https", "http"):
        raise ModelError(f"{url!r} is no address of a file to fetch; it must begin with https:// or http://.")
    if is_offline():
        raise InputError(
            f"cannot fetch {url}: nothing is fetched ({OFFLINE} or --offline); sharpbeam models list shows the cache."
        )
    mirror = os.environ.get(MIRROR, "").rstrip("/")
    target = f"{mirror}/{url.partition('://')[2]}" if mirror else url
    request = Request(target, headers={"User-Agent": "sharpbeam"} | ({"Range": f"bytes={begin}-"} if begin else {}))
    token = os.environ.get("HF_TOKEN")
    if token and scheme == "https" and host == "huggingface.co" and not mirror:
        request.add_unredirected_header("Authorization", f"Bearer {token}")  # not for where it leads
    try:
        answer = cast(HTTPResponse, urlopen(request, timeout=TIMEOUT))
    except HTTPError as error:
        if begin and error.code == 416:
            return None
        raise
    except ValueError as error:
        raise InputError(f"cannot fetch {target!r}: {error}.") from error
    if target.startswith("https:") and not answer.url.startswith("https:"):
        answer.close()
        raise InputError(f"cannot fetch {url}: it leads to {answer.url}, which is not encrypted.")
    return answer


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _append(answer: HTTPResponse, file: File, part: Path, report: Report) -> None:
    """Add an answer to `part`; raises HTTPException where it ends too early, ModelError where it does not end."""
    begin = _length(part) if answer.status == 206 else 0
    report(begin - _length(part))
    length = answer.headers.get("Content-Length")
    end = begin + int(length) if length else None
    most = file.transfer or (file.size if not file.packing else None) or MOST_BYTES
    with part.open("r+b" if begin else "wb") as out:
        out.seek(begin)
        while data := answer.read(CHUNK):
            begin += len(data)
            if begin > most:
                raise ModelError(f"{file.url} sends more than the {most:,} bytes that its registry states.")
            out.write(data)
            report(len(data))
    if end is not None and begin < end:
        raise HTTPException("the connection broke off")


def _unpacked(file: File, part: Path) -> Path:
    """The unpacked form of `part`; at most the bytes that the registry states are written."""
    if not file.packing:
        return part
    to, most, count = part.with_suffix(".unpacked"), file.size or 100 * part.stat().st_size + CHUNK, 0
    try:
        with _unpacking(file.packing, part) as packed, to.open("wb") as out:
            while data := packed.read(CHUNK):
                count += len(data)
                if count > most:
                    raise ModelError(f"{file.url} unpacks to more than the {most:,} bytes that are allowed for it.")
                out.write(data)
    except Exception as error:  # each packing has its own
        if getattr(error, "errno", None) == errno.ENOSPC:
            raise
        for path in (to, part):
            path.unlink(missing_ok=True)
        raise error if isinstance(error, ModelError) else ModelError(f"{file.url} is broken: {error}.") from error
    return to


def _unpacking(packing: str, path: Path) -> BinaryIO:
    if packing == "gz":
        return cast(BinaryIO, gzip.open(path))
    with needs_extra("unpacking .zst", "bulk"):
        import zstandard
    return cast(BinaryIO, zstandard.open(path, "rb"))


def _fault(file: File, path: Path) -> str:
    """The way in which `path` is not `file`, or ""."""
    size = path.stat().st_size
    if file.size is not None and size != file.size:
        return f"it has {size:,} bytes, not {file.size:,}"
    sha256, git = hashlib.sha256(), hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as content:
        while data := content.read(CHUNK):
            for digest in (sha256, git):
                digest.update(data)
    for name, stated, digest in (("SHA-256", file.sha256, sha256), ("git's SHA-1", file.git, git)):
        if stated and stated.lower() != digest.hexdigest():
            return f"its {name} is {digest.hexdigest()[:16]}..., not {stated[:16]}..."
    return ""
