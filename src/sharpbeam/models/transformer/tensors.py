"""Names and shapes of a transformer's tensors: one list for the PyTorch module, the native twin and the file."""

from __future__ import annotations

from collections.abc import Mapping

from sharpbeam.models.tensors import Shape, compare_shapes
from sharpbeam.models.transformer.config import TransformerConfig

Shapes = dict[str, Shape]


def tensor_shapes(config: TransformerConfig) -> Shapes:
    """Every tensor that a model of `config` has, by name; matrices are [out, in] as in PyTorch.

    The rows of `qkv` are D of queries, head by head, D of keys and D of values; those of `key_value` keys and values,
    those of `ssru.cell` candidates and forget gates, those of a gated `up` the activated part, then the other.
    """
    c, dim = config, config.hidden_dim
    shapes: Shapes = {"target_embedding": (c.target_vocab_size, dim)}
    if not c.shared_embedding:
        shapes["source_embedding"] = (c.source_vocab_size, dim)
    for side in ("source", "target"):
        if c.positions == "learned":
            shapes[f"{side}_positions"] = (c.max_positions, dim)
        if c.embedding_norm:
            shapes |= _norm(f"{side}_embedding_norm", dim)
    for i in range(c.encoder_layers):
        shapes |= _attention(f"encoder.{i}.attention", c)
        shapes |= _ffn(f"encoder.{i}.ffn", c, c.encoder_ffn_dim)
    for i in range(c.decoder_layers):
        shapes |= _attention(f"decoder.{i}.attention", c) if c.decoder_kind == "attention" else _ssru(i, c)
        shapes |= _norm(f"decoder.{i}.cross.norm", dim)
        for name, out in (("query", dim), ("key_value", 2 * dim), ("out", dim)):
            shapes |= _linear(f"decoder.{i}.cross.{name}", dim, out, c.attention_bias)
        shapes |= _ffn(f"decoder.{i}.ffn", c, c.decoder_ffn_dim)
    if c.encoder_final_norm:
        shapes |= _norm("encoder_norm", dim)
    if c.decoder_final_norm:
        shapes |= _norm("decoder_norm", dim)
    if not c.tied_output:
        shapes["output_weight"] = (c.target_vocab_size, dim)
    shapes["output_bias"] = (c.target_vocab_size,)
    return shapes


def check_shapes(config: TransformerConfig, found: Mapping[str, Shape]) -> None:
    """Raise ModelError unless `found` has exactly the names and shapes of `tensor_shapes(config)`."""
    compare_shapes(config.encoder_layers + config.decoder_layers, lambda: tensor_shapes(config), found)


def _attention(name: str, c: TransformerConfig) -> Shapes:
    dim, bias = c.hidden_dim, c.attention_bias
    return (
        _norm(f"{name}.norm", dim) | _linear(f"{name}.qkv", dim, 3 * dim, bias) | _linear(f"{name}.out", dim, dim, bias)
    )


def _ssru(layer: int, c: TransformerConfig) -> Shapes:
    name, dim = f"decoder.{layer}.ssru", c.hidden_dim
    shapes = _norm(f"{name}.norm", dim) | _linear(f"{name}.cell", dim, 2 * dim, True)
    return shapes | _linear(f"{name}.out", dim, dim, c.attention_bias) if c.ssru_projection else shapes


def _ffn(name: str, c: TransformerConfig, width: int) -> Shapes:
    up = 2 * width if c.gated_ffn else width
    return (
        _norm(f"{name}.norm", c.hidden_dim)
        | _linear(f"{name}.up", c.hidden_dim, up, c.ffn_bias)
        | _linear(f"{name}.down", width, c.hidden_dim, c.ffn_bias)
    )


def _norm(name: str, dim: int) -> Shapes:
    return {f"{name}.weight": (dim,), f"{name}.bias": (dim,)}


def _linear(name: str, inputs: int, outputs: int, bias: bool) -> Shapes:
    return {f"{name}.weight": (outputs, inputs)} | ({f"{name}.bias": (outputs,)} if bias else {})
