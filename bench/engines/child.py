"""Engines in processes of their own, which take lines of JSON: each has its own memory and processor time to count.

A line {"texts": [...], "size": N} hands over N texts at a time; the answer has `texts`, `wall_s`, `cpu_s`, `peak_mib`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness import record

# The switches that cap peers to AVX2, set if SHARPBEAM_ISA caps ours to it.
AVX2 = {
    "CT2_FORCE_CPU_ISA": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "INTGEMM_CPUID": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
}


class EngineError(Exception):
    """An engine ended, or cannot be had here; the message says why."""


@dataclass(frozen=True)
class Answer:
    """Translations, and what they took."""

    texts: list[str]
    wall_s: float
    cpu_s: float  # processor time of all threads
    peak_mib: float  # the most that was ever resident, loading included


class Child:
    """A process that translates. Close it, or use it in a `with`."""

    def __init__(self, *command: str) -> None:
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        environment = {**os.environ, **one, "PYTHONPATH": os.pathsep.join([str(record.ROOT / "src"), str(record.ROOT)])}
        environment |= AVX2 if environment.get("SHARPBEAM_ISA") == "avx2" else {}
        environment["SHARPBEAM_EXACT"] = "0"  # what bench/__init__.py says is for figures of one layer
        self._name = " ".join([Path(command[0]).name, *command[1:4]])  # no path of this machine
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=record.ROOT
        )

    def translate(self, texts: Sequence[str], size: int) -> Answer:
        """The translations of `texts`, `size` handed over at a time; raises EngineError where the process ended."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps({"texts": list(texts), "size": size}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line.startswith("{"):
            raise EngineError(f"{self._name} ended with {process.wait()}")
        answer = Answer(**json.loads(line))
        if len(answer.texts) != len(texts):
            raise EngineError(f"{len(answer.texts)} answers to {len(texts)} texts")
        return answer

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def python_engine(name: str, *, python: str = sys.executable, **settings: Any) -> Child:
    """An engine of bench/engines/serve.py, run by the interpreter `python`."""
    return Child(python, "-m", "bench.engines.serve", name, json.dumps(settings))
