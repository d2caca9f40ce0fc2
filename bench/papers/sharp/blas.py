"""The fastest float32 matmul of one to six rows that can be had here: what a fair SHARP-0 multiplies with.

OpenBLAS (scipy-openblas32), PyTorch's (MKL or oneDNN, whichever its build takes), and our own packed float32 matmul, in
turns on one thread, on the shapes of de-en; each is checked against double precision first.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from bench.harness import record
from bench.harness.interleave import interleave
from bench.micro.gemm import blas
from sharpbeam import _core
from sharpbeam.types import Floats

SHAPES = ((1536, 512), (1856, 320), (320, 512))  # outputs x inputs
ROWS = (1, 2, 4, 6)
SECONDS = 0.005  # of one round of a contender
CALLS = 20  # to measure how many calls that is


def contenders(weight: Floats, x: Floats) -> dict[str, Callable[[], Floats]]:
    """Functions that return x W' [R, out] by each library, with W as each likes it best."""
    library = ctypes.CDLL(str(blas()))
    sgemm = library.scipy_cblas_sgemm
    (rows, inputs), out = x.shape, len(weight)
    own, y = _core.Linear(weight), np.empty((rows, out), np.float32)
    matrix, hidden = torch.from_numpy(weight), torch.from_numpy(x)
    at = [array.ctypes.data_as(ctypes.POINTER(ctypes.c_float)) for array in (x, weight, y)]
    one, none = ctypes.c_float(1), ctypes.c_float(0)

    def openblas() -> Floats:
        sgemm(101, 111, 112, rows, out, inputs, one, at[0], inputs, at[1], inputs, none, at[2], out)  # x W', row-major
        return y

    def pytorch() -> Floats:
        return np.asarray(torch.nn.functional.linear(hidden, matrix).numpy())

    return {"OpenBLAS": openblas, "PyTorch": pytorch, "Sharpbeam": lambda: own.apply(x)}


def measure(rounds: int) -> dict[str, Any]:
    """Microseconds of each library by shape and rows, and the fastest; recorded."""
    torch.set_num_threads(1)
    draw, products, fastest = np.random.default_rng(1), [], list[str]()
    for out, inputs in SHAPES:
        weight = draw.normal(size=(out, inputs)).astype(np.float32)
        for rows in ROWS:
            x = draw.normal(size=(rows, inputs)).astype(np.float32)
            libraries = contenders(weight, x)
            exact = x.astype(np.float64) @ weight.T
            for name, run in libraries.items():
                off = float(np.abs(run() - exact).max() / np.abs(exact).max())
                assert off < 1e-5, f"{name} is off by {off}"
            us = _times(libraries, rounds)
            products.append({"out": out, "in": inputs, "rows": rows, "us": us})
            fastest.append(min(us, key=lambda name: us[name]))
    line = {
        "baseline": "OpenBLAS",
        "products": products,
        "fastest": {name: fastest.count(name) for name in set(fastest)},
    }
    options = {"rounds": rounds, "torch": torch.__version__}
    return record.write("sharp_blas", line, threads=1, options=options)


def _times(libraries: dict[str, Callable[[], Floats]], rounds: int) -> dict[str, float]:
    began = time.perf_counter()
    for _ in range(CALLS):
        libraries["OpenBLAS"]()
    calls = max(1, int(SECONDS * CALLS / (time.perf_counter() - began)))

    def repeated(run: Callable[[], Floats]) -> Callable[[], None]:
        def repeat() -> None:
            for _ in range(calls):
                run()

        return repeat

    timings = interleave(
        {name: repeated(run) for name, run in libraries.items()}, "OpenBLAS", rounds, lambda _: None, time.process_time
    )
    return {name: round(1e6 * timing.least_s / calls, 2) for name, timing in timings.items()}
