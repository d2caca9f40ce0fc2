"""The peak of this process alone: not of the one that started it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from sharpbeam.jobs.memory import peak_memory

SMALL = "from sharpbeam.jobs.memory import peak_memory; print(peak_memory())"


def test_what_is_touched_counts_and_stays() -> None:
    before = peak_memory()
    np.ones(50 << 20, np.uint8).sum()
    assert peak_memory() >= before
    block = np.ones(before + (100 << 20), np.uint8)  # above any peak so far
    assert peak_memory() >= len(block)
    del block
    assert peak_memory() >= before + (100 << 20)


def test_a_small_child_of_a_large_process_is_small() -> None:
    block = np.ones(400 << 20, np.uint8)
    message = subprocess.run([sys.executable, "-c", SMALL], capture_output=True, text=True, check=True).stdout
    assert 1 << 20 < int(message) < len(block)
