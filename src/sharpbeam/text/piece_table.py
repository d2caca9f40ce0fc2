"""Pieces by number and numbers by piece, in few bytes: Python's own tuple and dict take 150 bytes a piece."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

import numpy as np

_ERRORS = "surrogatepass"  # JSON may hold half of a character


class PieceTable:
    """An immutable list of pieces, which are stored as UTF-8 one after the other, and are found by their hashes."""

    def __init__(self, pieces: Sequence[str], hidden: Collection[int] = ()) -> None:
        """`hidden` are numbers that `find` does not give; some may be of no piece."""
        encoded = [piece.encode(errors=_ERRORS) for piece in pieces]
        self._text = b"".join(encoded)
        self._start = np.zeros(len(pieces) + 1, np.int32)
        np.cumsum(np.fromiter(map(len, encoded), np.int32, len(pieces)), out=self._start[1:])
        hashes = np.fromiter(map(hash, pieces), np.int64, len(pieces))
        hidden = sorted(number for number in hidden if 0 <= number < len(pieces))
        shown = np.delete(np.arange(len(pieces), dtype=np.int32), hidden)
        self._number = shown[np.argsort(hashes[shown], kind="stable")]
        self._hash = hashes[self._number]  # ascending
        # A text has few different pieces, and they come again.
        self._found: dict[str, int] = {}
        self._read: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._start) - 1

    def __iter__(self) -> Iterator[str]:
        return (self._text[a:b].decode(errors=_ERRORS) for a, b in pairwise(self._start.tolist()))

    def piece(self, number: int) -> str:
        """The piece `number`; IndexError unless 0 <= number < length."""
        if number not in self._read:
            self._read[number] = self._at(number)
        return self._read[number]

    def pieces(self, numbers: Sequence[int]) -> list[str]:
        """The piece of each number; IndexError if there is none."""
        try:
            return list(map(self._read.__getitem__, numbers))
        except KeyError:
            return list(map(self.piece, numbers))

    def _at(self, number: int) -> str:
        if not 0 <= number < len(self):
            raise IndexError(f"piece {number} is asked for; there are those from 0 to {len(self) - 1}")
        return self._text[self._start[number] : self._start[number + 1]].decode(errors=_ERRORS)

    def find(self, piece: str) -> int | None:
        """The number of a piece, the last one if there are two; None if it is not there, or hidden."""
        number = self._found.get(piece)
        if number is None and (number := self._search(piece)) is not None:
            self._found[piece] = number
        return number

    def find_all(self, pieces: Sequence[str], unknown: int) -> list[int]:
        """The number of each piece, `unknown` for those that `find` does not find."""
        try:
            return list(map(self._found.__getitem__, pieces))
        except KeyError:
            return [unknown if number is None else number for number in map(self.find, pieces)]

    def _search(self, piece: str) -> int | None:
        key = hash(piece)
        for place in range(int(np.searchsorted(self._hash, key, side="right")) - 1, -1, -1):
            if self._hash[place] != key:
                return None
            number = int(self._number[place])
            if self._at(number) == piece:
                return number
        return None
