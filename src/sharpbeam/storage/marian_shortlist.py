"""Binary lexical shortlists of Marian and Bergamot (`lex.*.bin`), as Firefox's models come with.

Little-endian: uint64 magic, checksum, frequent, best, number of offsets, number of ids; the offsets, uint64; the ids,
uint32. The translations of source token s are ids[offsets[s] : offsets[s + 1]]; the first `frequent` target ids are in
every set, and so is each source token itself if both sides share one vocabulary (src/data/shortlist.cpp of
browsermt's marian-dev). Marian fills a set up to a multiple of 8; that is left out here.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from itertools import chain, pairwise
from pathlib import Path

import numpy as np

from sharpbeam.errors import InputError
from sharpbeam.output_layers.shortlist import Shortlist
from sharpbeam.text.lines import read_whole

_MAGIC, _HEADER = 0xF11A48D5013417F5, struct.Struct("<6Q")
_HASHED = 16  # the first byte that the checksum counts
_MOST_BYTES = 1 << 26
_UNUSED = 256  # tokens that the model's vocabulary may have and the file may lack: unused ones, and the decoder's start


def is_marian_shortlist(path: Path) -> bool:
    """Whether a file begins as a binary shortlist does."""
    try:
        with path.open("rb") as file:
            return file.read(8) == struct.pack("<Q", _MAGIC)
    except OSError:
        return False


def read_marian_shortlist(
    path: Path, source_vocab: int, target_vocab: int, always: Collection[int], shared: bool
) -> Shortlist:
    """The shortlist in `path`, for vocabularies of these sizes; ids `always` are in every set too.

    `shared`: both sides have one vocabulary. Raises InputError for a damaged file and for one of other vocabularies.
    """
    raw = read_whole(path, InputError, _MOST_BYTES)
    try:
        frequent, offsets, ids = _parts(raw)
    except ValueError as error:
        raise InputError(f"{path} cannot be read as a binary shortlist: {error}. Copy it again.") from error
    sources, most = len(offsets) - 1, int(ids.max(initial=0))
    if not 0 <= source_vocab - sources <= _UNUSED or most >= target_vocab or frequent > target_vocab:
        raise InputError(
            f"{path} is for {sources} source tokens and target ids up to {max(most, frequent - 1)}; the model has "
            f"{source_vocab} and {target_vocab} tokens. Give the shortlist that belongs to the model."
        )
    token, number = ids.astype(np.int32), np.diff(offsets)
    if shared:
        token = np.insert(token, offsets[:-1], np.arange(sources, dtype=np.int32))
        number += 1
    start = np.zeros(source_vocab + 1, np.int32)
    np.cumsum(number, out=start[1 : sources + 1])
    start[sources + 1 :] = start[sources]
    return Shortlist(np.array(sorted({*range(frequent), *always}), np.int32), start, token)


def write_marian_shortlist(path: Path, shortlist: Shortlist, sources: int, eos: int) -> None:
    """Write `shortlist` for one vocabulary of `sources` tokens on both sides, so that the file's sets are its own.

    A file can only have the first ids in every set; other tokens of every set become translations of `eos`, with which
    every source ends. A source token itself, which is in its set anyway, is left out once.
    """
    always = [token for token in shortlist.always.tolist() if token < sources]
    frequent = next((i for i, token in enumerate(always) if i != token), len(always))
    lists = [shortlist.token[begin:end].tolist() for begin, end in pairwise(shortlist.start[: sources + 1].tolist())]
    for source, tokens in enumerate(lists):
        if source in tokens:
            tokens.remove(source)
    best = max(map(len, lists))
    lists[eos] += always[frequent:]
    offsets = np.cumsum([0, *map(len, lists)]).astype("<u8")
    ids = np.fromiter(chain.from_iterable(lists), "<u4", int(offsets[-1]))
    body = struct.pack("<4Q", frequent, best, len(offsets), len(ids)) + offsets.tobytes() + ids.tobytes()
    checksum = _checksum(bytes(_HASHED) + body)
    path.write_bytes(struct.pack("<2Q", _MAGIC, checksum) + body)


def _parts(raw: bytes) -> tuple[int, np.ndarray, np.ndarray]:
    """The number of frequent ids, the offsets [S + 1] and the ids; raises ValueError."""
    if len(raw) < _HEADER.size:
        raise ValueError(f"it has {len(raw)} bytes; there are {_HEADER.size} at least")
    magic, checksum, frequent, _, offsets, ids = _HEADER.unpack_from(raw)
    if magic != _MAGIC:
        raise ValueError(f"it begins with {magic:#x}, not with {_MAGIC:#x}")
    if _HEADER.size + 8 * offsets + 4 * ids != len(raw) or offsets < 2:
        raise ValueError(f"its header asks for {offsets} offsets and {ids} ids, but it has {len(raw)} bytes")
    if checksum != _checksum(raw):
        raise ValueError("its checksum is another one")
    start = np.frombuffer(raw, "<u8", offsets, _HEADER.size)
    if start[0] or start[-1] != ids or (start[1:] < start[:-1]).any():
        raise ValueError(f"its offsets do not rise from 0 to {ids}")
    return frequent, start.astype(np.int64), np.frombuffer(raw, "<u4", ids, _HEADER.size + 8 * offsets)


def _checksum(raw: bytes) -> int:
    """Marian's `hashMem` of all whole words of 8 bytes after the checksum."""
    seed, mask = 0, (1 << 64) - 1
    for value in memoryview(raw)[_HASHED : len(raw) - len(raw) % 8].cast("Q"):
        seed ^= (value + 0x9E3779B9 + (seed << 6) + (seed >> 2)) & mask
    return seed
