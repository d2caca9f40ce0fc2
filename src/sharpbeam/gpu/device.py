"""Devices that models decode on: which there are, which number types they have, and which operations they take."""

from __future__ import annotations

import importlib.util
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sharpbeam.errors import OptionError

if TYPE_CHECKING:
    import torch

INSTALL = "run: pip install 'sharpbeam[gpu]'"


def find_device(name: str) -> torch.device:
    """The device of option `device`: cuda, or torch-cpu for the same code on the CPU.

    Raises OptionError where PyTorch, Triton or the device is missing, and says how to check.
    """
    for package in ("torch", "triton") if name == "cuda" else ("torch",):
        if importlib.util.find_spec(package) is None:
            raise OptionError(f"device is {name!r}, which needs the package {package}; {INSTALL}")
    import torch

    if name == "torch-cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        built = torch.version.cuda
        reason = f"PyTorch {torch.__version__} was built for CUDA {built}, but finds no GPU and driver for it"
        if built is None:
            reason = f"PyTorch {torch.__version__} was built without CUDA"
        raise OptionError(
            f"device is 'cuda', but {reason}; leave the option out to decode on the CPU. To check: "
            "nvidia-smi lists the GPUs, python -c 'import torch; print(torch.cuda.is_available())' prints True."
        )
    return torch.device("cuda", torch.cuda.current_device())


def operations(device: torch.device) -> Any:
    """best_tokens, union_of_sets and attend_cells on a device: Triton's on CUDA, plain PyTorch elsewhere."""
    return import_module("sharpbeam.gpu.kernels" if device.type == "cuda" else "sharpbeam.gpu.plain")
