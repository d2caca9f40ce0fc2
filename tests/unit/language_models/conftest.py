"""Tiny LSTM language models, and walks through their interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from unit.conftest import Walk

from sharpbeam import _core
from sharpbeam.models.interface import Model
from sharpbeam.models.lstm_lm.config import LstmLmConfig
from sharpbeam.models.native import NativeModel
from sharpbeam.types import Floats, Ids, Request

Tensors = dict[str, Floats]

# No size divides another, some are above a panel of 64 columns, some below the 16 lanes of a reduction.
GRID: dict[str, dict[str, Any]] = {
    "one layer": {"vocab_size": 37, "embedding_dim": 11, "hidden_dim": 7, "layers": 1},
    "two layers": {"vocab_size": 37, "embedding_dim": 18, "hidden_dim": 70, "layers": 2},
    "three layers, tied": {"vocab_size": 41, "embedding_dim": 67, "hidden_dim": 67, "layers": 3, "tied_output": True},
}


@pytest.fixture(params=GRID, ids=lambda name: name.replace(", ", "-").replace(" ", "-"))
def config(request: pytest.FixtureRequest) -> LstmLmConfig:
    """Each config of the grid in turn."""
    return LstmLmConfig(**GRID[request.param])


@pytest.fixture(params=_core.table_names())
def isa(request: pytest.FixtureRequest) -> str:
    """Each kernel table of this machine in turn."""
    return str(request.param)


@pytest.fixture(params=["native", "torch"])
def build(request: pytest.FixtureRequest) -> Callable[..., Model]:
    """A model of given config and tensors in the core and in PyTorch."""
    if request.param == "native":
        return NativeModel
    pytest.importorskip("torch")
    from support.torch_model import TorchModel

    return TorchModel


def random_tensors(config: LstmLmConfig, seed: int = 1) -> Tensors:
    """Random weights, large enough that every tensor shows in the hidden vectors."""
    draw = np.random.default_rng(seed)
    return {
        name: draw.normal(0, 0.3 if len(shape) == 1 else (4.0 / shape[1]) ** 0.5, shape).astype(np.float32)
        for name, shape in config.tensor_shapes().items()
    }


def ids(*tokens: int) -> Ids:
    """An array of ids."""
    return np.array(tokens, np.int32)


def random_walk(config: LstmLmConfig, lengths: tuple[int, ...] = (5, 1, 12, 3), beam: int = 3, steps: int = 4) -> Walk:
    """A random walk of a beam: rows have siblings, some parents die out, rows stand in any order, some are fed bos."""
    draw = np.random.default_rng(7)
    requests = [Request(i, draw.integers(0, config.vocab_size, n).astype(np.int32)) for i, n in enumerate(lengths)]
    walk = Walk(requests, [], [], [])
    owner = np.arange(len(lengths), dtype=np.int32)
    for _ in range(steps):
        parent = draw.permutation(draw.integers(0, len(owner), beam * len(lengths)))
        owner = owner[parent]
        token = draw.integers(0, config.vocab_size, len(owner)).astype(np.int32)
        token[::5] = config.bos_id
        walk.request.append(owner)
        walk.parent.append(parent.astype(np.int32))
        walk.token.append(token)
    return walk
