"""CUDA graphs: work captured once for each of a few numbers of rows, and replayed with new inputs."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TypeVar

import torch
from torch import Tensor

T = TypeVar("T")
MOST_ROWS = 1024  # of a graph; larger steps are launched kernel by kernel, which their work hides
_CAPTURES = Lock()  # PyTorch has one stream for the captures of a process


def padded_rows(rows: int) -> int:
    """The rows of the graph that serves a step of `rows`: a power of two, or three quarters of one."""
    power = 1 << (rows - 1).bit_length()
    return 3 * power // 4 if power >= 4 and rows <= 3 * power // 4 else power


def capture(run: Callable[[], T]) -> tuple[T, Callable[[], None]]:
    """The result of `run` on the current CUDA device, and a function that computes it anew in the same place."""
    with _CAPTURES:
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            run()  # Triton compiles here
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # other threads continue
            result = run()
        return result, graph.replay


class RowGraph:
    """One function of rows, captured for a number of them."""

    def __init__(self, run: Callable[[Tensor], Tensor], inputs: Tensor) -> None:
        """Capture `run` on `inputs`, which stay at their place."""
        self.inputs = inputs  # of the next replay; written by the caller
        self._result, self._replay = capture(lambda: run(inputs))

    def replay(self) -> Tensor:
        """The result for `inputs`; it lasts until the next replay."""
        self._replay()
        return self._result
