"""CUDA graphs of decoding steps: one for each of a few numbers of rows, replayed with new inputs."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

MOST_ROWS = 1024  # of a graph; larger steps are launched kernel by kernel, which their work hides
WARM_UPS = 3  # runs before the capture, in which Triton compiles


def padded_rows(rows: int) -> int:
    """The rows of the graph that serves a step of `rows`: a power of two, or one and a half of it."""
    power = 1 << (rows - 1).bit_length()
    return 3 * power // 4 if power >= 4 and rows <= 3 * power // 4 else power


class StepGraph:
    """One captured step: `run` maps facts [n, R] int32 on the device to hidden vectors [R, D]."""

    def __init__(self, run: Callable[[Tensor], Tensor], empty: Tensor) -> None:
        """Capture `run`. `empty` are facts of rows that only fill the step up; a step with them changes nothing."""
        self._given = empty
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                run(self._given)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        self._empty = empty.clone()
        with torch.cuda.graph(self._graph):
            self._hidden = run(self._given)

    def replay(self, given: Tensor) -> Tensor:
        """Hidden vectors [R or more, D] of the facts `given` [n, R]; they last until the next replay."""
        rows = given.shape[1]
        self._given[:, :rows] = given
        self._given[:, rows:] = self._empty[:, rows:]
        self._graph.replay()
        return self._hidden
