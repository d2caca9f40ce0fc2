"""A worker of Ray that dies once, in the middle of its work."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from sharpbeam.jobs.batch import Batch, TranslateBatch


class DyingBatch(TranslateBatch):
    """Kills its process at the batch with the row whose id is `KILL_AT`, once; `KILLED` names a file that notes it."""

    def __call__(self, batch: Batch) -> dict[str, Any]:
        result = super().__call__(batch)
        note = Path(os.environ["KILLED"])
        if int(os.environ.get("KILL_AT", "100")) in batch["id"] and not note.exists():
            note.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return result
