"""Names and shapes of an LSTM translation model's tensors."""

from __future__ import annotations

from sharpbeam.models.lstm.config import LstmAttentionConfig
from sharpbeam.models.tensors import Shapes, cell, embeddings, output

GATES = 4  # in the order i, f, g, o


def tensor_shapes(config: LstmAttentionConfig) -> Shapes:
    """Every tensor that a model of `config` has, by name."""
    c, shapes, dim = config, embeddings(config), config.hidden_dim
    for layer in range(c.layers):
        for direction in ("forwards", "backwards"):
            shapes |= cell(f"encoder.{layer}.{direction}", GATES, dim if layer else c.embedding_dim, dim // 2)
    for layer in range(c.layers):
        shapes |= cell(f"decoder.layers.{layer}", GATES, dim if layer else c.embedding_dim + dim, dim)
    return shapes | {"decoder.key_weight": (dim, dim), "decoder.readout_weight": (dim, 2 * dim)} | output(c)
