"""The metrics of a training run: JSON lines in its folder, and on stderr."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

from torch import Tensor

from sharpbeam.storage.atomic import write_text
from sharpbeam.train.checkpoint import Progress


def say(text: str) -> None:
    """Print a line to stderr, above a progress bar if there is one."""
    print(text, file=sys.stderr, flush=True)


_FIGURES = re.compile(r'\{"step": \d+, [^{}]*\}')  # a line


class Metrics:
    """Collects the figures of a run. On resuming, those beyond the checkpoint are dropped: none stands twice."""

    def __init__(self, output: Path, step: int) -> None:
        self._path = output / "metrics.jsonl"
        text = self._path.read_text(encoding="utf-8", errors="replace") if self._path.exists() else ""
        lines = [line for line in text.split("\n") if _FIGURES.fullmatch(line)]  # without half-written ones
        write_text(self._path, "".join(f"{line}\n" for line in lines if json.loads(line)["step"] <= step))
        self._since, self._timed_words = time.perf_counter(), 0

    def step(self, progress: Progress, figures: tuple[Tensor, int], rate: float, every: int) -> None:
        """Add one step's sums (loss, nll, (log Z)^2, right guesses) and its words; write a line every `every` steps."""
        sums, words = figures
        progress.sums = [a + b for a, b in zip(progress.sums, sums.tolist(), strict=True)]
        progress.sum_words += words
        self._timed_words += words
        if progress.step % every:
            return
        loss, nll, square, right = (s / progress.sum_words for s in progress.sums)
        speed = self._timed_words / (time.perf_counter() - self._since)
        figure = {"loss": loss, "nll": nll, "mean_square_log_z": square, "accuracy": right, "learning_rate": rate}
        self.write(progress, figure | {"tokens_per_second": speed})
        progress.sums, progress.sum_words = [0.0] * 4, 0

    def write(self, progress: Progress, figures: dict[str, float]) -> None:
        """Write a line of figures, such as those of a validation."""
        record = {"step": progress.step, "epoch": progress.epoch, **figures, "seconds": progress.seconds}
        line = json.dumps(record, allow_nan=False)  # NaN is not JSON; the loop stops before there is one
        with self._path.open("a") as out:
            out.write(line + "\n")
        terminal = sys.stderr.isatty()
        say(", ".join(f"{name} {value:.6g}" for name, value in record.items()) if terminal else line)
        self._since, self._timed_words = time.perf_counter(), 0
