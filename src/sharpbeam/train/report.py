"""The output of a training run: a progress bar on a terminal, and metrics as JSON lines."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from torch import Tensor

from sharpbeam.storage.atomic import write_text
from sharpbeam.train.checkpoint import Progress


class Report:
    """Collects the figures of a run. On resuming, metrics beyond the checkpoint are dropped: none stands twice."""

    def __init__(self, output: Path, max_steps: int, step: int) -> None:
        self._path = output / "metrics.jsonl"
        history = [r for r in _read(self._path) if r["step"] <= step]
        write_text(self._path, "".join(json.dumps(record) + "\n" for record in history))
        self._since, self._timed_words = time.perf_counter(), 0
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Bar(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty())
        self._task = self._bar.add_task("training", total=max_steps, completed=step)

    def __enter__(self) -> Report:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def step(self, progress: Progress, figures: tuple[Tensor, int], rate: float, every: int) -> None:
        """Add one step's sums (loss, nll, (log Z)^2, right guesses) and its words; write a line every `every` steps."""
        sums, words = figures
        progress.sums = [a + b for a, b in zip(progress.sums, sums.tolist(), strict=True)]
        progress.sum_words += words
        self._timed_words += words
        self._bar.update(self._task, completed=progress.step)
        if progress.step % every:
            return
        now = time.perf_counter()
        loss, nll, square, right = (s / progress.sum_words for s in progress.sums)
        record = {
            "step": progress.step,
            "epoch": progress.epoch,
            "loss": loss,
            "nll": nll,
            "mean_square_log_z": square,
            "accuracy": right,
            "learning_rate": rate,
            "tokens_per_second": self._timed_words / (now - self._since),
            "seconds": progress.seconds,
        }
        self._write(record)
        self._bar.update(self._task, description=f"loss {loss:.3f}  {record['tokens_per_second']:.0f} tokens/s")
        progress.sums, progress.sum_words = [0.0] * 4, 0
        self._since, self._timed_words = now, 0

    def validation(self, progress: Progress, figures: dict[str, float]) -> None:
        """Write the figures of one validation."""
        self._write({"step": progress.step, "epoch": progress.epoch, **figures, "seconds": progress.seconds})
        self._since, self._timed_words = time.perf_counter(), 0

    def say(self, text: str) -> None:
        """Print a readable line, above the progress bar if there is one."""
        self._bar.console.print(text, markup=False, highlight=False)

    def _write(self, record: dict[str, float]) -> None:
        line = json.dumps(record, allow_nan=False)  # NaN is not JSON; the loop stops before there is one
        with self._path.open("a") as out:
            out.write(line + "\n")
        if not sys.stderr.isatty():
            print(line, file=sys.stderr, flush=True)


def _read(path: Path) -> list[dict[str, float]]:
    """Whole JSON lines of `path`; a half-written last line is left out."""
    if not path.exists():
        return []
    lines = path.read_text().split("\n")
    return [json.loads(line) for line in lines[:-1] if line]
