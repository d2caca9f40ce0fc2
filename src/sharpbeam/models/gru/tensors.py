"""Names and shapes of a recurrent model's tensors."""

from __future__ import annotations

from sharpbeam.models.gru.config import GruConfig
from sharpbeam.models.tensors import Shapes, cell, embeddings, linear, output

GATES = 3


def tensor_shapes(config: GruConfig) -> Shapes:
    """Every tensor that a model of `config` has, by name."""
    c, shapes = config, embeddings(config)
    for layer in range(c.encoder_layers):
        width = c.embedding_dim if layer == 0 else c.memory_dim
        for direction in ("forwards", "backwards"):
            shapes |= cell(f"encoder.{layer}.{direction}", GATES, width, c.encoder_dim)
    shapes |= linear("decoder.bridge", c.memory_dim, c.decoder_dim)
    if c.decoder_cell == "conditional":
        shapes |= cell("decoder.first", GATES, c.embedding_dim, c.decoder_dim)
        shapes |= cell("decoder.second", GATES, c.memory_dim, c.decoder_dim)
        query = c.decoder_dim
    else:
        shapes |= cell("decoder.first", GATES, c.embedding_dim + c.memory_dim, c.decoder_dim)
        query = c.decoder_dim + c.embedding_dim
    shapes["decoder.attention.query_weight"] = (c.attention_dim, query)
    shapes["decoder.attention.key_weight"] = (c.attention_dim, c.memory_dim)
    shapes["decoder.attention.key_bias"] = (c.attention_dim,)
    if c.attention == "mlp":
        shapes["decoder.attention.score_weight"] = (c.attention_dim,)
    below = c.decoder_dim
    for layer in range(c.fc_layers):
        shapes |= linear(f"decoder.fc.{layer}", below, c.fc_dim)
        below = c.fc_dim
    if c.top == "tanh":
        shapes |= linear("decoder.top", below, c.top_dim)
    elif c.top == "gru":
        shapes |= cell("decoder.top_gru", GATES, below, c.top_dim)
    if c.readout != "none":
        shapes |= linear("decoder.readout", c.stack_dim + c.memory_dim + c.embedding_dim, c.hidden_dim)
    return shapes | output(c)
