"""Things that the processes of a server share: a folder, and numbers that each counts and all can add up."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Share:
    """One of several processes, and the folder that they have in common."""

    folder: Path
    number: int  # of this process
    processes: int


class Numbers:
    """Whole numbers by name. Every process writes its own, and reads the sum over all, without a lock."""

    def __init__(self, names: Sequence[str], share: Share | None, lasting: Sequence[str] = ()) -> None:
        """Begin with 0, but for those of `lasting`, where a process before had the same place."""
        self._place = {name: index for index, name in enumerate(names)}
        self._width, size = len(names), 8 * len(names) * (share.processes if share else 1)
        if share is None:
            file = -1
        else:
            file = os.open(share.folder / "numbers", os.O_RDWR | os.O_CREAT, 0o600)
            os.ftruncate(file, size)  # to the same size by whichever process comes first
        self._all = memoryview(mmap.mmap(file, size)).cast("q")
        if file >= 0:
            os.close(file)
        self._first = self._width * share.number if share else 0
        for name in self._place.keys() - set(lasting):
            self.set(name, 0)

    def add(self, name: str, count: int) -> None:
        """Add to the number of this process."""
        self._all[self._first + self._place[name]] += count

    def set(self, name: str, value: int) -> None:
        """Set the number of this process."""
        self._all[self._first + self._place[name]] = value

    def total(self, name: str) -> int:
        """The sum over all processes."""
        return sum(self._all[self._place[name] :: self._width])
