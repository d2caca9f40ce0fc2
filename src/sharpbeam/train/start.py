"""Fine-tuning: a run that begins with the weights and vocabularies of a model folder (`train.start`)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sharpbeam.errors import OptionError
from sharpbeam.models.registry import Config
from sharpbeam.storage.model_folder import read_config, read_tensors
from sharpbeam.train.task import TrainingTask

VOCABULARIES = ("source.spm", "target.spm", "source.vocab.json", "target.vocab.json", "vocab.json")


def copy_vocabularies(start: Path, output: Path) -> None:
    """Put the vocabulary files of the model folder `start` into `output`, where a fresh run looks for them."""
    read_config(start)  # raises ModelError if this is no model folder
    for name in VOCABULARIES:
        if (start / name).exists() and not (output / name).exists():
            (output / name).write_bytes((start / name).read_bytes())


def load_start(start: Path, config: Config, model: nn.Module, matching: bool = False) -> None:
    """Give `model` the weights in the folder `start`.

    OptionError if its facts are not those of the recipe; but with `matching` the tensors of `model` that have a
    counterpart of the same name and shape get that one's weights, and the others stay as they are.
    """
    saved = read_config(start)
    if saved != config and not matching:
        raise OptionError(
            f"train.start is {start}, whose facts are {saved}; the recipe's table [model] asks for {config}. Give the "
            "recipe the facts of that model, or set train.start_matching."
        )
    own = model.state_dict()
    tensors = {
        name: torch.tensor(tensor)
        for name, tensor in read_tensors(start, saved).items()
        if name in own and own[name].shape == tensor.shape
    }
    model.load_state_dict(own | tensors)


@torch.no_grad()
def center_log_z(task: TrainingTask, model: Any, batch: Any) -> None:
    """Shift the output bias so that log Z is about 0 on `batch`.

    A model trained without self-normalization has a log Z far from 0 that differs little from row to row. No answer
    depends on it, but alpha (log Z)^2 would first tear the model apart to get rid of it.
    """

    def spread() -> float:
        figures, words = task.loss(model, batch)
        return math.sqrt(float(figures[2]) / words)  # root mean square of log Z

    model.eval()
    before = spread()
    bias = model.output()[1]
    bias -= before
    if spread() > before:  # log Z was below zero
        bias += 2 * before
