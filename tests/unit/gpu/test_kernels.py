"""The kernels for GPUs, in Triton's interpreter, and their plain PyTorch form, against the NumPy reference."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from support.gpu_cases import KINDS, case, plain  # noqa: E402

TESTS = Path(__file__).parents[2]
IN_THE_INTERPRETER = """
import torch
from support.gpu_cases import KINDS, case, kernels
torch.set_num_threads(1)
operations = kernels("cpu")
for kind in KINDS:
    for seed in range(5):
        outcome = case(kind, seed, torch.float16 if seed % 2 else torch.float32, operations, 17)
        assert outcome.holds, (kind, seed, outcome)
print("every case holds")
"""


def in_process(*command: str, **environment: str) -> str:
    """Output of Python in a process of its own: whether Triton compiles or interprets is decided at import."""
    clean = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    paths = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
    variables = clean | {"PYTHONPATH": paths, "TRITON_DEFAULT_FP_FUSION": "1"} | environment
    process = subprocess.run([sys.executable, *command], env=variables, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-3000:]
    return process.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_the_plain_form_equals_the_reference(kind: str) -> None:
    operations = plain()
    for seed in range(60):
        outcome = case(kind, seed, torch.float16 if seed % 2 else torch.float32, operations, 640)
        assert outcome.holds, (seed, outcome)


def test_kernels_equal_the_reference_in_the_interpreter() -> None:
    pytest.importorskip("triton")
    assert "every case holds" in in_process("-c", IN_THE_INTERPRETER, TRITON_INTERPRET="1")


def test_kernels_compile_for_gpus_that_are_not_here(tmp_path: Path) -> None:
    pytest.importorskip("triton.backends.nvidia")
    message = in_process("-m", "support.gpu_compile", "fp16", "90", TRITON_CACHE_DIR=str(tmp_path))
    results = {line["kernel"]: line for line in map(json.loads, message.splitlines())}
    assert len(results) == 9
    assert all(line["stack"] == 0 for line in results.values()), "registers are spilled"
    assert all(results[name]["tensor_cores"] for name in results if name.startswith("product"))
