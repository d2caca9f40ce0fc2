"""Checkpoints: all that a run needs to resume with the same losses, in one safetensors file, renamed into place."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from sharpbeam.errors import ModelError
from sharpbeam.storage.atomic import replacing_file
from sharpbeam.train.muon import Muon
from sharpbeam.train.recipe import differences

KEPT: dict[type[torch.optim.Optimizer], list[str]] = {  # for each parameter
    torch.optim.Adam: ["exp_avg", "exp_avg_sq", "step"],
    Muon: ["momentum_buffer"],
}
MOMENTS = [key for keys in KEPT.values() for key in keys]


@dataclass
class Progress:
    """Where a run stands."""

    step: int = 0  # optimizer steps done
    epoch: int = 0
    batch: int = 0  # batches of this epoch done
    best_bleu: float = -1.0  # of a translation model
    best_nll: float = math.inf  # of that model, or of the best language model, in nats for each token
    since_best: int = 0  # validations since the best one
    words: int = 0  # target tokens seen
    seconds: float = 0.0  # spent training, all runs together
    # Sums of loss, nll, (log Z)^2 and right guesses since the last line of metrics, and their target tokens.
    sums: list[float] = field(default_factory=lambda: [0.0] * 4)
    sum_words: int = 0
    threads: int = 0  # of PyTorch, measured when the run began


def write_checkpoint(
    path: Path,
    model: nn.Module,
    average: dict[str, Tensor],
    optimizers: Sequence[torch.optim.Optimizer],
    progress: Progress,
    carried: dict[str, Tensor],
    settings: dict[str, Any],
) -> None:
    """Write model, running average, moments of the optimizers, random states, progress and carried tensors to `path`.

    `settings` are those of `train.recipe.identity`, compared at the next reading.

    A write that fails raises OSError and leaves the checkpoint that was there before.
    """
    tensors: dict[str, Tensor] = {"random_state": torch.get_rng_state()}
    if torch.cuda.is_available():
        tensors["cuda_random_state"] = torch.cuda.get_rng_state()
    states = {parameter: state for optimizer in optimizers for parameter, state in optimizer.state.items()}
    for name, parameter in model.named_parameters():
        tensors[f"model.{name}"] = parameter.detach()
        state = states.get(parameter, {})
        tensors |= {f"{key}.{name}": torch.as_tensor(state[key]) for key in MOMENTS if key in state}
    tensors |= {f"average.{name}": value for name, value in average.items()}
    tensors |= {f"carried.{name}": value for name, value in carried.items()}
    metadata = {"progress": json.dumps(asdict(progress)), "settings": json.dumps(settings)}
    try:
        with replacing_file(path) as temporary:
            save_file({k: v.contiguous() for k, v in tensors.items()}, temporary, metadata=metadata)
    except SafetensorError as error:
        raise OSError(str(error)) from error


def read_settings(path: Path) -> dict[str, Any]:
    """The settings that the checkpoint `path` was written with; none if there is no checkpoint or it is damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            settings: dict[str, Any] = json.loads(file.metadata()["settings"])
    except (SafetensorError, KeyError, TypeError, ValueError, OSError):
        return {}
    return settings


def read_checkpoint(
    path: Path,
    model: nn.Module,
    average: dict[str, Tensor],
    optimizers: Sequence[torch.optim.Optimizer],
    settings: dict[str, Any],
) -> tuple[Progress, dict[str, Tensor]]:
    """Fill model, average and optimizers from `path`, set the random state; returns progress and carried tensors.

    Raises ModelError if the file is damaged, or was written under other `settings`.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
            changed = differences(json.loads(metadata["settings"]), settings)
            if changed:
                raise ValueError("; ".join(changed))
            progress = Progress(**json.loads(metadata["progress"]))
            names = set(file.keys())
            owner = {p: one for one in optimizers for group in one.param_groups for p in group["params"]}
            for name, parameter in model.named_parameters():
                parameter.data.copy_(file.get_tensor(f"model.{name}"))
                keys = [key for key in MOMENTS if f"{key}.{name}" in names]
                if keys and keys != KEPT.get(type(owner[parameter])):
                    raise ValueError(f"it has other moments of {name}")
                owner[parameter].state[parameter] = {
                    key: file.get_tensor(f"{key}.{name}").to(parameter.device) for key in keys
                }
                if name in average:
                    average[name].copy_(file.get_tensor(f"average.{name}"))
            carried = {n.removeprefix("carried."): file.get_tensor(n) for n in names if n.startswith("carried.")}
            torch.set_rng_state(file.get_tensor("random_state"))
            if torch.cuda.is_available() and "cuda_random_state" in names:
                torch.cuda.set_rng_state(file.get_tensor("cuda_random_state"))
    except (SafetensorError, KeyError, TypeError, ValueError, AttributeError, RuntimeError, OSError) as error:
        raise ModelError(
            f"{path} is no checkpoint of this recipe ({error}); start in another --output folder."
        ) from error
    return progress, carried
