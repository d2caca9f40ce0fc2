"""Packed results: each chunk of .gz and .zst is a member of its own, so a file that is cut at one can be continued."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

from sharpbeam.errors import needs_extra

Pack = Callable[[bytes], bytes]


def packer(path: Path) -> Pack:
    """The function that packs a chunk for a file, by its suffix."""
    if path.suffix == ".gz":
        return lambda data: gzip.compress(data, mtime=0)
    if path.suffix == ".zst":
        with needs_extra("writing .zst files", "bulk"):
            import zstandard
        compress: Pack = zstandard.ZstdCompressor().compress
        return compress
    return lambda data: data
