"""The kernels compiled for GPUs that need not be there: `python -m support.gpu_compile` prints a JSON line for each.

Triton's interpreter runs what its compiler may refuse. TRITON_INTERPRET must not be set.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from sharpbeam.gpu.kernels.attention import attention_kernel
from sharpbeam.gpu.kernels.scoring import merge_kernel, product_kernel
from sharpbeam.gpu.kernels.union import count_kernel, list_kernel, mark_kernel

LOW = {"hidden", "weight", "query", "pool", "answer"}  # pointers to the number type of the weights
FLOATS = {"bias", "peaks", "totals", "highest", "total", "best_logit", "log_sum"}
KEYS, MARKS = {"keys", "key"}, {"mask"}
WIDE = {"dim", "hidden_stride", "weight_stride"}  # numbers that 16 divides
TILE = {"width": 16, "block_r": 64, "block_v": 128, "block_d": 64}
KERNELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "product": (product_kernel, TILE | {"has_tokens": False}),
    "product, few rows": (product_kernel, TILE | {"has_tokens": False, "block_r": 16}),
    "product, listed": (product_kernel, TILE | {"has_tokens": True, "block_r": 32}),
    "product, many best": (product_kernel, TILE | {"width": 32, "has_tokens": False}),
    "merge": (merge_kernel, {"width": 16, "padded": 256}),
    "attention": (attention_kernel, {"biased": True, "padded": 64, "block": 32}),
    "mark": (mark_kernel, {"block": 1024}),
    "count": (count_kernel, {"block": 1024}),
    "list": (list_kernel, {"block": 1024}),
}
NUMBERS = {"rows", "tokens", "dim", "hidden_stride", "weight_stride", "splits", "size"}
NUMBERS |= {"k", "most", "heads", "width", "distances"}


def signature(kernel: Any, constants: dict[str, Any], low: str) -> dict[str, str]:
    """The type of each parameter, by its name."""

    def kind(name: str) -> str:
        if name in constants:
            return "constexpr"
        if name == "scale":
            return "fp32"
        if name in NUMBERS:
            return "i32"
        types = ("fp32", FLOATS), (low, LOW), ("i64", KEYS), ("i8", MARKS)
        return "*" + next((type_ for type_, names in types if name in names), "i32")

    return {name: kind(name) for name in kernel.arg_names}


def compiled(name: str, low: str, capability: int) -> dict[str, Any]:
    """Compile a kernel; returns the registers and the bytes on the stack of a thread, and the shared memory."""
    kernel, constants = KERNELS[name]
    constants = constants | ({"block_d": 32} if low == "fp32" and "block_d" in constants else {})
    types = signature(kernel, constants, low)
    places = {parameter: (place,) for place, parameter in enumerate(kernel.arg_names)}
    even = [p for p, kind in types.items() if kind.startswith("*") or p in WIDE]
    source = ASTSource(
        kernel,
        types,
        constexprs={places[p]: value for p, value in constants.items()},
        attrs={places[p]: [["tt.divisibility", 16]] for p in even},
    )
    warps = 8 if name.startswith("product") else 4
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": warps})
    usage = _usage(made.asm["cubin"])
    facts = {"kernel": name, "type": low, "sm": capability, "shared": made.metadata.shared}
    return facts | usage | {"tensor_cores": "mma" in made.asm["ptx"]}


def every(types: tuple[str, ...], capabilities: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """All kernels, in each number type, for each generation of GPUs."""
    for name in KERNELS:
        for low in types:
            for capability in capabilities:
                yield compiled(name, low, capability)


def _usage(cubin: bytes) -> dict[str, int]:
    tool = next(Path(triton.__file__).parent.glob("backends/nvidia/bin/cuobjdump"))
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        message = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    result = re.search(r"REG:(\d+) STACK:(\d+)", message)
    assert result is not None, message
    return {"registers": int(result[1]), "stack": int(result[2])}


if __name__ == "__main__":
    for line in every(tuple(sys.argv[1].split(",")), tuple(map(int, sys.argv[2].split(",")))):
        print(json.dumps(line), flush=True)
