"""Things that the processes of a server share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Share:
    """One of several processes, and what they have in common."""

    number: int  # of this process
    folder: Path
    pending: Any  # array in shared memory: accepted sentences of each process, which only that one writes
