"""The core reads a model's config by itself, and refuses one that Python's checks would not have let through."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sharpbeam import _core
from sharpbeam.models.transformer.config import TransformerConfig

OPTIONS = {
    "compute_type": "float32",
    "precomputed_embeddings": 0,
    "precomputed_attention": False,
    "merge_states": True,
}
CONFIG = TransformerConfig(
    source_vocab_size=9, target_vocab_size=9, hidden_dim=8, encoder_layers=1, decoder_layers=1, encoder_heads=2,
    decoder_heads=2, encoder_ffn_dim=8, decoder_ffn_dim=8,
)  # fmt: skip


def build(**changes: object) -> _core.Transformer:
    tensors = {name: np.zeros(shape, np.float32) for name, shape in CONFIG.tensor_shapes().items()}
    config = dataclasses.asdict(CONFIG) | changes
    return _core.Transformer(
        {key: value for key, value in config.items() if value is not None}, tensors, "auto", OPTIONS
    )


def test_a_sound_config_is_read():
    assert build().isa == _core.table_name()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_dim": None}, "the config has no field 'hidden_dim'"),
        ({"hidden_dim": "8"}, "hidden_dim is '8'; it must be an integer"),
        ({"hidden_dim": 8.5}, "hidden_dim is 8.5; it must be an integer"),
        ({"hidden_dim": 10**30}, "it must be an integer"),
        ({"decoder_layers": 0}, "decoder_layers is 0; it must be between 1 and 268435456"),
        ({"encoder_heads": -2}, "encoder_heads is -2; it must be between 1"),
        ({"target_vocab_size": 2**29}, "target_vocab_size is 536870912; it must be between 1"),
        ({"norm_epsilon": "small"}, "norm_epsilon is 'small'; it must be a number"),
        ({"gated_ffn": 1}, "gated_ffn is 1; it must be True or False"),
        ({"activation": "tanh"}, "activation is 'tanh'; it must be one of relu, gelu, gelu_sigmoid, gelu_tanh, swish"),
        ({"decoder_heads": 3}, "hidden_dim is 8; it must be a multiple of the 3 heads"),
        ({"head_dim": 2**17}, "head_dim is 131072; it must be at most 65536"),
        ({"experts": 4}, "experts is 4; it must be between 2 and 1024 where .* and 0 elsewhere"),
        ({"experts": 1, "decoder_expert_step": 1}, "experts is 1; it must be between 2 and 1024"),
        ({"experts": 1025, "decoder_expert_step": 1}, "experts is 1025; it must be between 2 and 1024"),
        ({"experts": 4, "decoder_expert_step": 1}, r"tensor 'decoder.0.ffn.up.weight' has shape \[8, 8\]"),
        ({"positions": "relative"}, "relative_buckets is 0 and relative_distance 0; there must be 4 buckets or more"),
        (
            {"positions": "relative", "relative_buckets": 4, "relative_distance": 2**24},
            "the distance times the heads at most 16777216",
        ),
        ({"hidden_dim": 6}, r"tensor '.*' has shape"),
    ],
)
def test_a_wrong_field_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        build(**changes)
