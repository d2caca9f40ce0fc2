"""Names and shapes of a recurrent model's tensors: one list for the PyTorch module, the native twin and the file."""

from __future__ import annotations

from sharpbeam.models.gru.config import GruConfig
from sharpbeam.models.tensors import Shape


def tensor_shapes(config: GruConfig) -> dict[str, Shape]:
    """Every tensor that a model of `config` has, by name; matrices are [out, in] as in PyTorch."""
    c = config
    shapes: dict[str, Shape] = {"target_embedding": (c.target_vocab_size, c.embedding_dim)}
    if not c.shared_embedding:
        shapes["source_embedding"] = (c.source_vocab_size, c.embedding_dim)
    for layer in range(c.encoder_layers):
        width = c.embedding_dim if layer == 0 else c.memory_dim
        for direction in ("forwards", "backwards"):
            shapes |= _gru(f"encoder.{layer}.{direction}", width, c.encoder_dim)
    shapes |= _linear("decoder.bridge", c.memory_dim, c.decoder_dim)
    if c.decoder_cell == "conditional":
        shapes |= _gru("decoder.first", c.embedding_dim, c.decoder_dim)
        shapes |= _gru("decoder.second", c.memory_dim, c.decoder_dim)
        query = c.decoder_dim
    else:
        shapes |= _gru("decoder.first", c.embedding_dim + c.memory_dim, c.decoder_dim)
        query = c.decoder_dim + c.embedding_dim
    shapes["decoder.attention.query_weight"] = (c.attention_dim, query)
    shapes["decoder.attention.key_weight"] = (c.attention_dim, c.memory_dim)
    shapes["decoder.attention.key_bias"] = (c.attention_dim,)
    if c.attention == "mlp":
        shapes["decoder.attention.score_weight"] = (c.attention_dim,)
    below = c.decoder_dim
    for layer in range(c.fc_layers):
        shapes |= _linear(f"decoder.fc.{layer}", below, c.fc_dim)
        below = c.fc_dim
    if c.top == "tanh":
        shapes |= _linear("decoder.top", below, c.top_dim)
    elif c.top == "gru":
        shapes |= _gru("decoder.top_gru", below, c.top_dim)
    if c.readout != "none":
        shapes |= _linear("decoder.readout", c.stack_dim + c.memory_dim + c.embedding_dim, c.hidden_dim)
    if not c.tied_output:
        shapes["output_weight"] = (c.target_vocab_size, c.hidden_dim)
    shapes["output_bias"] = (c.target_vocab_size,)
    return shapes


def _linear(name: str, inputs: int, outputs: int) -> dict[str, Shape]:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _gru(name: str, inputs: int, states: int) -> dict[str, Shape]:
    return {
        f"{name}.input_weight": (3 * states, inputs),
        f"{name}.input_bias": (3 * states,),
        f"{name}.hidden_weight": (3 * states, states),
        f"{name}.hidden_bias": (3 * states,),
    }
