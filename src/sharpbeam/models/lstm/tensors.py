"""Names and shapes of an LSTM translation model's tensors: one list for PyTorch, the native twin and the file."""

from __future__ import annotations

from sharpbeam.models.lstm.config import LstmAttentionConfig
from sharpbeam.models.tensors import Shape


def tensor_shapes(config: LstmAttentionConfig) -> dict[str, Shape]:
    """Every tensor that a model of `config` has, by name; matrices are [out, in], gates in the order i, f, g, o."""
    c = config
    dim = c.hidden_dim
    shapes: dict[str, Shape] = {"target_embedding": (c.target_vocab_size, c.embedding_dim)}
    if not c.shared_embedding:
        shapes["source_embedding"] = (c.source_vocab_size, c.embedding_dim)
    for layer in range(c.layers):
        for direction in ("forwards", "backwards"):
            shapes |= _lstm(f"encoder.{layer}.{direction}", dim if layer else c.embedding_dim, dim // 2)
    for layer in range(c.layers):
        shapes |= _lstm(f"decoder.layers.{layer}", dim if layer else c.embedding_dim + dim, dim)
    shapes["decoder.key_weight"] = (dim, dim)
    shapes["decoder.readout_weight"] = (dim, 2 * dim)
    if not c.tied_output:
        shapes["output_weight"] = (c.target_vocab_size, dim)
    shapes["output_bias"] = (c.target_vocab_size,)
    return shapes


def _lstm(name: str, inputs: int, states: int) -> dict[str, Shape]:
    return {
        f"{name}.input_weight": (4 * states, inputs),
        f"{name}.input_bias": (4 * states,),
        f"{name}.hidden_weight": (4 * states, states),
        f"{name}.hidden_bias": (4 * states,),
    }
