"""Hidden vectors that stay on the device: a search holds a ticket for each in their place."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from sharpbeam.types import Floats

if TYPE_CHECKING:
    from sharpbeam.gpu.model import DeviceDecoding

WIDTH = 3  # of a ticket: the run, its step, and the row
MOST = 1 << 24  # whole numbers that a float32 has


class Vectors:
    """The hidden vectors of all runs of a model.

    A search treats a hidden vector as an opaque row of numbers that it copies and hands to the output layer. So a row
    of three numbers, float32, can stand for one.
    """

    def __init__(self, device: torch.device, dtype: torch.dtype, width: int) -> None:
        if width == WIDTH:
            raise ValueError(f"a hidden vector of {WIDTH} numbers cannot be told from its ticket")
        self._device, self._dtype, self._width = device, dtype, width
        self._runs: WeakValueDictionary[int, DeviceDecoding] = WeakValueDictionary()
        self._numbers = count(1)

    def join(self, run: DeviceDecoding) -> int:
        """A number for a new run."""
        number = next(self._numbers) % MOST
        self._runs[number] = run
        return number

    @staticmethod
    def tickets(run: DeviceDecoding, rows: int) -> Floats:
        """Tickets [rows, 3] for the first `rows` hidden vectors of the run's last step."""
        tickets = np.empty((rows, WIDTH), np.float32)
        tickets[:, 0], tickets[:, 1], tickets[:, 2] = run.number, run.steps % MOST, np.arange(rows)
        return tickets

    def take(self, hidden: Floats) -> Tensor:
        """The hidden vectors [R, D] on the device, of tickets [R, 3] or of vectors [R, D] from the host.

        Raises ValueError for tickets of an earlier step.
        """
        if hidden.shape[1] == self._width or not len(hidden):
            return torch.from_numpy(np.array(hidden, np.float32)).to(self._device, self._dtype)
        number, step = int(hidden[0, 0]), int(hidden[0, 1])
        run = self._runs.get(number)
        if run is None or run.steps % MOST != step or (hidden[:, :2] != hidden[0, :2]).any():
            raise ValueError("these hidden vectors are of an earlier step; they last until the next one.")
        row = hidden[:, 2].astype(np.int64)
        if np.array_equal(row, np.arange(len(row))):
            return run.hidden[: len(row)]
        return run.hidden[torch.from_numpy(row).to(self._device)]
