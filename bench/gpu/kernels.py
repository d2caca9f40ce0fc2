"""The kernels for GPUs against the NumPy reference on random cases: in Triton's interpreter, or on a GPU.

Shapes, ties, empty clusters, one row and 640 rows are drawn at random. Tokens and logits must be identical. Without a
GPU the kernels are compiled for two generations of them too, which the interpreter does not do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Annotated, Any

import typer

from bench.harness import record
from sharpbeam.errors import SharpbeamError

SECONDS = 400.0  # after which no case begins
TYPES = {"cpu": ("float32", "float16"), "cuda": ("float32", "float16", "bfloat16")}  # bfloat16: on hardware only


def compiled() -> list[dict[str, Any]]:
    """Resources that each kernel takes of two generations of GPUs, for which it is compiled in another process."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "support.gpu_compile", "fp16,bf16", "80,90"]
    paths = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "TRITON_DEFAULT_FP_FUSION": "1"}
    result = subprocess.run(command, env=environment | paths, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SharpbeamError(f"a kernel does not compile: {result.stderr[-2000:]}")
    return [json.loads(line) for line in result.stdout.splitlines()]


def main(
    cases: Annotated[int, typer.Option(help="in all, of every kind and number type in turns")] = 500,
    device: Annotated[str, typer.Option(help="cpu (the interpreter) or cuda")] = "cpu",
    compiles: Annotated[bool, typer.Option(help="compile for GPUs that are not there, too")] = True,
) -> None:
    """Run, print and record."""
    if device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"  # before the kernels are imported
    import torch
    from support import gpu_cases  # type: ignore[import-not-found,unused-ignore]

    if device == "cuda" and not torch.cuda.is_available():
        raise SharpbeamError("no GPU here: torch.cuda.is_available() is False; run with --device cpu.")
    operations, kinds, until = gpu_cases.kernels(device), tuple(gpu_cases.KINDS), time.monotonic() + SECONDS
    figures: dict[str, dict[str, Any]] = {kind: {"cases": 0, "differ": 0, "error": 0.0} for kind in kinds}
    for number in range(cases):
        if time.monotonic() > until:  # a GPU compiles each form anew
            break
        kind, types = kinds[number % len(kinds)], TYPES[device]
        dtype = getattr(torch, types[number // len(kinds) % len(types)])
        most = 640 if device == "cuda" or number % 97 < len(kinds) else 40  # 640 rows take seconds in the interpreter
        outcome, own = gpu_cases.case(kind, number, dtype, operations, most), figures[kind]
        own["cases"], own["differ"] = own["cases"] + 1, own["differ"] + (not outcome.same)
        own["error"] = max(own["error"], outcome.error)
    options = {"part": "kernels", "device": "interpreter" if device == "cpu" else torch.cuda.get_device_name()}
    made = {"compiled": compiled()} if device == "cpu" and compiles else {}
    done = sum(own["cases"] for own in figures.values())
    line = {"kinds": figures, "types": TYPES[device]} | made
    record.write("gpu", line, threads=1, options=options | {"cases": done})
    for kind, own in figures.items():
        print(f"{kind:<10} {own['differ']} of {own['cases']} differ; log-sum-exp within {own['error']:.1e}")
    for one in made.get("compiled", []):
        print(", ".join(f"{name} {value}" for name, value in one.items()))
    if any(own["differ"] or own["error"] > gpu_cases.LOG_SUM for own in figures.values()):
        raise SharpbeamError("a kernel does not answer as the reference does")
