"""The GPU of a benchmark: its name, or an error that says there is none."""

from __future__ import annotations

import torch

from sharpbeam.errors import SharpbeamError


def device_of(name: str) -> tuple[torch.device, str]:
    """The device `name` (cuda, or cpu to try the benchmark out) and what a line of results calls it."""
    if name == "cpu":
        return torch.device("cpu"), "cpu"
    if not torch.cuda.is_available():
        raise SharpbeamError("no GPU here: torch.cuda.is_available() is False. --device cpu --quick tries this out.")
    return torch.device("cuda"), torch.cuda.get_device_name()


def wait(device: torch.device) -> None:
    """Wait for the work given to a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize()
