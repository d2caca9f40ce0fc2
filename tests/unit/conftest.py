"""Tiny models of every choice of the config, and walks through their interface."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from sharpbeam import _core
from sharpbeam.models.gru.config import GruConfig
from sharpbeam.models.interface import Decoding, Model
from sharpbeam.models.lstm.config import LstmAttentionConfig
from sharpbeam.models.native import NativeModel
from sharpbeam.models.registry import TranslationConfig
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.types import Floats, Ids, Request

Tensors = dict[str, Floats]

# No size divides another, some are above a panel of 64 columns, some below the 16 lanes of a reduction.
BASE: dict[str, Any] = {
    "source_vocab_size": 31,
    "target_vocab_size": 37,
    "embedding_dim": 18,
    "encoder_dim": 13,
    "decoder_dim": 23,
    "attention_dim": 17,
    "hidden_dim": 70,
}
SHARP = BASE | {"decoder_cell": "attentional", "attention": "tanh_dot", "readout": "none"}
GRID: dict[str, dict[str, Any]] = {
    "cube": BASE,
    "cube 3 layers, wide": BASE | {"encoder_layers": 3, "encoder_dim": 36, "decoder_dim": 71, "attention_dim": 67},
    "cube shared, tied": BASE
    | {"source_vocab_size": 37, "embedding_dim": 70, "shared_embedding": True, "tied_output": True},
    "cube tanh readout": BASE | {"readout": "tanh", "encoder_layers": 2},
    "cube tanh_dot": BASE | {"attention": "tanh_dot"},
    "cube fc 2, tanh": BASE | {"fc_layers": 2, "fc_dim": 19, "top": "tanh", "top_dim": 25},
    "cube gru": BASE | {"top": "gru", "top_dim": 11},
    "cube gru, one start": BASE | {"top": "gru", "top_dim": 23, "top_start": "bottom"},
    "sharp": SHARP | {"hidden_dim": 23},
    "sharp mlp, linear": SHARP | {"attention": "mlp", "readout": "linear", "encoder_layers": 2},
    "sharp fc 1": SHARP | {"fc_layers": 1, "fc_dim": 70},
    "sharp fc 3, tanh": SHARP | {"fc_layers": 3, "fc_dim": 21, "top": "tanh", "top_dim": 70},
    "sharp fc 7, gru": SHARP | {"fc_layers": 7, "fc_dim": 21, "top": "gru", "top_dim": 70},
    "sharp fc 6, gru, readout": SHARP
    | {"fc_layers": 6, "fc_dim": 66, "top": "gru", "top_dim": 9, "readout": "tanh", "attention": "mlp"},
}
LSTM: dict[str, Any] = {"source_vocab_size": 31, "target_vocab_size": 37, "embedding_dim": 18, "hidden_dim": 70}
LSTM_GRID: dict[str, dict[str, Any]] = {
    "lstm": LSTM,
    "lstm 1 layer, small": LSTM | {"layers": 1, "hidden_dim": 14},
    "lstm 3 layers, shared, tied": LSTM
    | {"source_vocab_size": 37, "layers": 3, "hidden_dim": 18, "shared_embedding": True, "tied_output": True},
    "lstm 8 layers, residual": LSTM | {"layers": 8, "hidden_dim": 22, "residual": True},
}
TRANSFORMER: dict[str, Any] = {
    "source_vocab_size": 31,
    "target_vocab_size": 37,
    "hidden_dim": 70,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_heads": 5,
    "decoder_heads": 2,
    "encoder_ffn_dim": 19,
    "decoder_ffn_dim": 83,
}
TRANSFORMER_GRID: dict[str, dict[str, Any]] = {
    "transformer": TRANSFORMER,
    "transformer post, swish, t2t": TRANSFORMER
    | {
        "norm": "post",
        "encoder_final_norm": False,
        "decoder_final_norm": False,
        "activation": "swish",
        "positions": "sinusoidal-t2t",
        "position_offset": 2,
    },
    "transformer gated, learned, bare": TRANSFORMER
    | {
        "gated_ffn": True,
        "activation": "gelu",
        "positions": "learned",
        "max_positions": 64,
        "embedding_norm": True,
        "attention_bias": False,
        "ffn_bias": False,
        "scaled_embedding": False,
        "norm_epsilon": 1e-3,
    },
    "transformer deep, shared, tied": TRANSFORMER
    | {
        "source_vocab_size": 37,
        "encoder_layers": 3,
        "decoder_layers": 1,
        "activation": "gelu_sigmoid",
        "shared_embedding": True,
        "tied_output": True,
        "positions": "none",
    },
    "transformer rms, narrow heads, relative": TRANSFORMER
    | {
        "source_vocab_size": 37,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "norm_kind": "rms",
        "norm_epsilon": 1e-6,
        "activation": "gelu_tanh",
        "gated_ffn": True,
        "head_dim": 3,
        "scaled_attention": False,
        "positions": "relative",
        "relative_buckets": 6,
        "relative_distance": 4,
        "attention_bias": False,
        "ffn_bias": False,
        "shared_embedding": True,
    },
    "transformer shared relative": TRANSFORMER
    | {"positions": "relative-shared", "relative_buckets": 7, "relative_distance": 9, "decoder_layers": 3},
    "transformer experts": TRANSFORMER | {"experts": 5, "encoder_expert_step": 2, "decoder_expert_step": 1},
    "transformer experts, gated, bare": TRANSFORMER
    | {
        "experts": 3,
        "encoder_expert_step": 1,
        "normalized_gates": False,
        "router_bias": True,
        "gated_ffn": True,
        "ffn_bias": False,
    },
    "ssru": TRANSFORMER | {"decoder_kind": "ssru", "norm": "post", "decoder_final_norm": False},
    "ssru relative": TRANSFORMER
    | {"decoder_kind": "ssru", "positions": "relative", "relative_buckets": 4, "relative_distance": 3, "head_dim": 3},
    "ssru pre, projection": TRANSFORMER | {"decoder_kind": "ssru", "ssru_projection": True},
}
CONFIGS: dict[str, TranslationConfig] = {name: GruConfig(**facts) for name, facts in GRID.items()}
CONFIGS |= {name: LstmAttentionConfig(**facts) for name, facts in LSTM_GRID.items()}
CONFIGS |= {name: TransformerConfig(**facts) for name, facts in TRANSFORMER_GRID.items()}
SMALL: dict[str, TranslationConfig] = {
    "recurrent": GruConfig(31, 37, 18, 2, 13, 23, attention_dim=17, top="gru", top_dim=11, hidden_dim=70),
    "lstm": CONFIGS["lstm"],
    "transformer": CONFIGS["transformer"],
    "experts": CONFIGS["transformer experts"],
    "ssru": CONFIGS["ssru"],
}
TABLES: list[str] = _core.table_names()


@pytest.fixture(params=CONFIGS, ids=lambda name: name.replace(", ", "-").replace(" ", "-"))
def config(request: pytest.FixtureRequest) -> TranslationConfig:
    """Each config of the grids in turn."""
    return CONFIGS[request.param]


@pytest.fixture(params=SMALL)
def small(request: pytest.FixtureRequest) -> TranslationConfig:
    """A config of each translation architecture in turn; all have the same vocabularies and hidden width."""
    return SMALL[request.param]


@pytest.fixture(params=TABLES)
def isa(request: pytest.FixtureRequest) -> str:
    """Each kernel table of this machine in turn."""
    return str(request.param)


@pytest.fixture
def make_tensors() -> Callable[..., Tensors]:
    """Random weights for a config, large enough that every tensor shows in the hidden vectors."""

    def make(config: TranslationConfig, seed: int = 1) -> Tensors:
        draw = np.random.default_rng(seed)

        def one(name: str, shape: tuple[int, ...]) -> Floats:
            scale = 0.3 if len(shape) == 1 else (2.0 / shape[1]) ** 0.5
            return draw.normal(1.0 if name.endswith("norm.weight") else 0.0, scale, shape).astype(np.float32)

        return {name: one(name, shape) for name, shape in config.tensor_shapes().items()}

    return make


@pytest.fixture(params=["native", "torch"])
def build(request: pytest.FixtureRequest) -> Callable[..., Model]:
    """A model of given config and tensors in the core and in PyTorch."""
    if request.param == "native":
        return NativeModel
    pytest.importorskip("torch")
    from support.torch_model import TorchModel

    return TorchModel


@pytest.fixture
def make_requests() -> Callable[..., list[Request]]:
    """Requests of the given source lengths with random words, numbered from `first`."""

    def make(config: TranslationConfig, lengths: Sequence[int], seed: int = 1, first: int = 0) -> list[Request]:
        draw = np.random.default_rng(seed)
        return [
            Request(first + i, draw.integers(0, config.source_vocab_size, n).astype(np.int32))
            for i, n in enumerate(lengths)
        ]

    return make


@dataclass
class Walk:
    """A search's path without its scores: at each step, rows pick parents of the step before and a word."""

    requests: list[Request]
    request: list[Ids]  # for each step, [R]
    parent: list[Ids]  # for each step, [R] row of the step before, or request for the first step
    token: list[Ids]  # for each step, [R]

    def run(self, run: Decoding) -> Floats:
        """Hidden vectors of all rows of all steps, one after the other."""
        state = run.admit(self.requests)
        hidden = []
        for request, parent, token in zip(self.request, self.parent, self.token, strict=True):
            new, state = run.step(request, state[parent], token)
            run.retain(state)
            hidden.append(new)
        return np.concatenate(hidden)


@pytest.fixture
def walk(make_requests: Callable[..., list[Request]]) -> Callable[..., Walk]:
    """A random walk of a beam: rows have siblings, some parents die out, rows stand in any order."""

    def make(config: TranslationConfig, lengths: Sequence[int] = (5, 1, 12, 3), beam: int = 3, steps: int = 4) -> Walk:
        draw = np.random.default_rng(7)
        result = Walk(make_requests(config, lengths), [], [], [])
        owner = np.arange(len(lengths), dtype=np.int32)
        for _ in range(steps):
            parent = draw.permutation(draw.integers(0, len(owner), beam * len(lengths)))
            owner = owner[parent]
            result.request.append(owner)
            result.parent.append(parent.astype(np.int32))
            result.token.append(draw.integers(0, config.target_vocab_size, len(owner)).astype(np.int32))
        return result

    return make
