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
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from sharpbeam.errors import InputError, ModelError, needs_extra
from sharpbeam.hub.archives import CHUNK, copy

MIRROR, OFFLINE = "SHARPBEAM_MIRROR", "SHARPBEAM_OFFLINE"
TIMEOUT, WAITS = 20.0, (0.5, 2.0, 5.0)  # seconds without an answer, and before each next try
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


def is_offline() -> bool:
    """Whether nothing may be fetched."""
    return os.environ.get(OFFLINE, "") not in ("", "0")


def read_url(url: str) -> bytes:
    """The answer to `url`, at most MOST_JSON bytes. Raises InputError or ModelError."""
    with TemporaryDirectory() as folder:
        fetch(File(url, "answer", transfer=MOST_JSON), answer := Path(folder, "answer"))
        return answer.read_bytes()


def fetch(file: File, to: Path, report: Report = lambda _: None) -> None:
    """Fetch `file` to the path `to`, or continue with what an earlier run left next to it.

    Raises InputError where it cannot be had, ModelError where it is not what the registry states.
    """
    part = to.with_name(f"{to.name}.part")
    if not (file.sha256 or file.git):
        part.unlink(missing_ok=True)  # what cannot be checked is not continued
    report(_length(part))
    _download(file, part, report)
    unpacked = part.with_suffix(".unpacked") if file.packing else part
    try:
        if file.packing:
            _unpack(file, part, unpacked)
        _check(file, unpacked)
        os.replace(unpacked, to)
    except ModelError:
        part.unlink(missing_ok=True)
        raise
    finally:
        unpacked.unlink(missing_ok=True)
    part.unlink(missing_ok=True)


def _download(file: File, part: Path, report: Report) -> None:
    """Fetch what `part` lacks of a file; what may pass is tried again. Raises InputError."""
    for wait in (*WAITS, None):
        try:
            with _open(file.url, _length(part)) as answer:
                _append(answer, file, part, report)
            return
        except HTTPError as error:
            if error.code == 416:  # nothing is left
                return
            if wait is None or (error.code < 500 and error.code != 429):
                reason = {404: "there is none of that name"}.get(error.code, error.reason)
                reason = "it is not for everyone; HF_TOKEN is for the hub" if error.code in (401, 403) else reason
                raise InputError(f"cannot fetch {file.url}: {reason} (HTTP {error.code}).") from error
        except (OSError, HTTPException) as error:
            fault = getattr(error, "reason", None) or error
            if getattr(error, "errno", None) == errno.ENOSPC:
                raise
            if wait is None or isinstance(fault, (FileNotFoundError, ConnectionRefusedError)):
                raise InputError(
                    f"cannot fetch {file.url}: {str(fault).rstrip('.') or type(fault).__name__}. Check the network, "
                    f"HTTPS_PROXY and {MIRROR}; what is in the cache works without (sharpbeam models list)."
                ) from error
        time.sleep(wait)


def _open(url: str, begin: int) -> HTTPResponse:
    """An answer with the bytes of `url` from `begin` on."""
    scheme, host = urlsplit(url)[:2]
    if scheme not in ("https", "http"):
        raise ModelError(f"{url!r} is no address of a file to fetch; it must begin with https:// or http://.")
    if is_offline():
        raise InputError(f"cannot fetch {url}: with --offline or {OFFLINE} nothing is fetched.")
    mirror = os.environ.get(MIRROR, "").rstrip("/")
    target = f"{mirror}/{url.partition('://')[2]}" if mirror else url
    request = Request(target, headers={"User-Agent": "sharpbeam"} | ({"Range": f"bytes={begin}-"} if begin else {}))
    token = os.environ.get("HF_TOKEN")
    if token and scheme == "https" and host == "huggingface.co" and not mirror:
        request.add_unredirected_header("Authorization", f"Bearer {token}")  # not for where it leads
    try:
        answer = cast(HTTPResponse, urlopen(request, timeout=TIMEOUT))
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
    most = file.transfer or (file.size if not file.packing else None) or MOST_BYTES
    fault = f"{file.url} sends more than {most:,} bytes, which no file of a registry has."
    with part.open("r+b" if begin else "wb") as out:
        out.seek(begin)
        count = copy(answer, out, most - begin, fault, report)
    if count < int(answer.headers.get("Content-Length") or 0):
        raise HTTPException("the connection broke off")


def _unpack(file: File, part: Path, to: Path) -> None:
    """Unpack `part`; at most the bytes that the registry states are written."""
    most = file.size or 100 * part.stat().st_size + CHUNK
    fault = f"{file.url} unpacks to more than the {most:,} bytes that are allowed for it."
    unpacking: Any = gzip
    if file.packing == "zst":
        with needs_extra("unpacking .zst", "bulk"):
            unpacking = import_module("zstandard")
    try:
        with unpacking.open(part, "rb") as packed, to.open("wb") as out:
            copy(packed, out, most, fault)
    except ModelError:
        raise
    except Exception as error:  # each packing has its own
        if getattr(error, "errno", None) == errno.ENOSPC:
            raise
        raise ModelError(f"{file.url} is broken: {error}.") from error


def _check(file: File, path: Path) -> None:
    """Raise ModelError where `path` is not `file`."""
    size = path.stat().st_size
    fault = f"it has {size:,} bytes, not {file.size:,}" if file.size not in (None, size) else ""
    git = hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
    for name, stated, digest in (("SHA-256", file.sha256, hashlib.sha256()), ("git's SHA-1", file.git, git)):
        if stated and not fault:
            with path.open("rb") as content:
                while data := content.read(CHUNK):
                    digest.update(data)
            if stated.lower() != digest.hexdigest():
                fault = f"its {name} is {digest.hexdigest()[:16]}..., not {stated[:16]}..."
    if fault:
        raise ModelError(f"{file.url} is not what its registry states: {fault}. Nothing was kept; try again later.")
