"""Names and shapes of a transformer's tensors."""

from __future__ import annotations

from typing import Literal

from sharpbeam.models.tensors import Shapes, embeddings, linear, output
from sharpbeam.models.transformer.config import TransformerConfig


def tensor_shapes(config: TransformerConfig) -> Shapes:
    """Every tensor that a model of `config` has, by name.

    The rows of `qkv` are queries, head by head, keys and values; those of `key_value` keys and values, those of
    `ssru.cell` candidates and forget gates, those of a gated `up` the activated part, then the other. The matrices and
    biases of a mixture's experts stand one below the other. A `position_bias` has a row for each bucket, a column for
    each head.
    """
    c, dim = config, config.hidden_dim
    shapes = embeddings(c)
    for side in ("source", "target"):
        if c.positions == "learned":
            shapes[f"{side}_positions"] = (c.max_positions, dim)
        if c.embedding_norm:
            shapes |= _norm(f"{side}_embedding_norm", c)
    if c.positions == "relative-shared":
        shapes["encoder_position_bias"] = (c.relative_buckets, c.encoder_heads)
        if c.decoder_kind == "attention":
            shapes["decoder_position_bias"] = (c.relative_buckets, c.decoder_heads)
    for i in range(c.encoder_layers):
        shapes |= _attention("encoder", i, c)
        shapes |= _ffn(f"encoder.{i}.ffn", c, c.encoder_ffn_dim, c.experts_of("encoder", i))
    for i in range(c.decoder_layers):
        shapes |= _attention("decoder", i, c) if c.decoder_kind == "attention" else _ssru(i, c)
        cross, keys = f"decoder.{i}.cross", c.attention_dim("decoder")
        shapes |= _norm(f"{cross}.norm", c)
        for name, inputs, outputs in (("query", dim, keys), ("key_value", dim, 2 * keys), ("out", keys, dim)):
            shapes |= linear(f"{cross}.{name}", inputs, outputs, c.attention_bias)
        shapes |= _ffn(f"decoder.{i}.ffn", c, c.decoder_ffn_dim, c.experts_of("decoder", i))
    if c.encoder_final_norm:
        shapes |= _norm("encoder_norm", c)
    if c.decoder_final_norm:
        shapes |= _norm("decoder_norm", c)
    return shapes | output(c)


def _attention(side: Literal["encoder", "decoder"], layer: int, c: TransformerConfig) -> Shapes:
    name, dim, keys, bias = f"{side}.{layer}.attention", c.hidden_dim, c.attention_dim(side), c.attention_bias
    shapes = _norm(f"{name}.norm", c) | linear(f"{name}.qkv", dim, 3 * keys, bias)
    if c.positions == "relative":
        shapes[f"{name}.position_bias"] = (c.relative_buckets, c.heads(side))
    return shapes | linear(f"{name}.out", keys, dim, bias)


def _ssru(layer: int, c: TransformerConfig) -> Shapes:
    name, dim = f"decoder.{layer}.ssru", c.hidden_dim
    shapes = _norm(f"{name}.norm", c) | linear(f"{name}.cell", dim, 2 * dim, True)
    return shapes | linear(f"{name}.out", dim, dim, c.attention_bias) if c.ssru_projection else shapes


def _ffn(name: str, c: TransformerConfig, width: int, experts: int) -> Shapes:
    up = 2 * width if c.gated_ffn else width
    router = linear(f"{name}.router", c.hidden_dim, experts, c.router_bias) if experts > 1 else {}
    return (
        _norm(f"{name}.norm", c)
        | router
        | linear(f"{name}.up", c.hidden_dim, experts * up, c.ffn_bias)
        | linear(f"{name}.down", width, experts * c.hidden_dim, c.ffn_bias)
    )


def _norm(name: str, c: TransformerConfig) -> Shapes:
    shapes: Shapes = {f"{name}.weight": (c.hidden_dim,)}
    return shapes if c.norm_kind == "rms" else shapes | {f"{name}.bias": (c.hidden_dim,)}
