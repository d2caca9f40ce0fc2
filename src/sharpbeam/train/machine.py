"""Precision and number of threads of a training run: the fastest on this machine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

import torch

from sharpbeam.options.machine import usable_cores
from sharpbeam.train.task import TrainingTask

BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}  # flags of x86-64 and Arm processors with such matmuls
CPU_INFO = Path("/proc/cpuinfo")
TRIALS = 3  # steps for each number of threads; the fastest counts


def fastest_precision(device: str) -> Literal["float32", "bfloat16"]:
    """The precision of matmuls that is fastest on `device`, "cpu" or "cuda"; bfloat16 has float32's range."""
    there = torch.cuda.is_bf16_supported() if device == "cuda" else bool(_flags() & BFLOAT16)
    return "bfloat16" if there else "float32"


def fastest_threads(task: TrainingTask, model: torch.nn.Module) -> int:
    """Number of threads with which a step takes least time: one, or one for each usable core.

    Small matrices on many threads are slow, and so are threads that share their cores with other programs. The random
    state, and the tensors that the task carries from batch to batch, stay unchanged.
    """
    counts = sorted({1, usable_cores()})
    if len(counts) == 1:
        return 1
    carried = {name: value.clone() for name, value in task.carried().items()}
    batch = next(iter(task.epoch(0, 0)))
    model.train()
    seconds = {}
    with torch.random.fork_rng():
        for count in counts:
            torch.set_num_threads(count)
            seconds[count] = min(_step(task, model, batch) for _ in range(TRIALS))
    model.zero_grad(set_to_none=True)
    task.carry(carried)
    return min(counts, key=lambda count: seconds[count])


def _step(task: TrainingTask, model: torch.nn.Module, batch: object) -> float:
    began = time.perf_counter()
    figures, tokens = task.loss(model, batch)
    (figures[0] / tokens).backward()  # type: ignore[no-untyped-call]
    return time.perf_counter() - began


def _flags() -> set[str]:
    """Features of the processor by Linux's names; none if they are not known."""
    try:
        lines = CPU_INFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        return set()
    pairs = (line.partition(":") for line in lines)
    return {flag for name, _, flags in pairs if name.strip() in ("flags", "Features") for flag in flags.split()}
