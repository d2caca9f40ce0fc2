"""Names and shapes of tensors: what every architecture has, and the comparison with those that are there.

Matrices are [out, in] as in PyTorch. An architecture's `tensor_shapes` is one list for its PyTorch module, the native
twin and the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from sharpbeam.errors import ModelError

Shape = tuple[int, ...]
Shapes = dict[str, Shape]
SCALE = ".scale"  # suffix of the name of the scales of an int8 matrix


def linear(name: str, inputs: int, outputs: int, bias: bool = True) -> Shapes:
    """A matrix, and its bias."""
    return {f"{name}.weight": (outputs, inputs)} | ({f"{name}.bias": (outputs,)} if bias else {})


def cell(name: str, gates: int, inputs: int, states: int) -> Shapes:
    """A recurrent cell, its gates one below the other."""
    return {
        f"{name}.input_weight": (gates * states, inputs),
        f"{name}.input_bias": (gates * states,),
        f"{name}.hidden_weight": (gates * states, states),
        f"{name}.hidden_bias": (gates * states,),
    }


def embeddings(config: Any) -> Shapes:
    """The embeddings of a translation model."""
    shapes: Shapes = {"target_embedding": (config.target_vocab_size, config.embedding_dim)}
    if not config.shared_embedding:
        shapes["source_embedding"] = (config.source_vocab_size, config.embedding_dim)
    return shapes


def output(config: Any) -> Shapes:
    """The output matrix, unless it is the embedding, and its bias."""
    shapes: Shapes = {"output_bias": (config.target_vocab_size,)}
    return shapes if config.tied_output else {"output_weight": (config.target_vocab_size, config.hidden_dim)} | shapes


def compare_shapes(
    tensor_shapes: Callable[[Any], Mapping[str, Shape]], config: Any, present: Mapping[str, Shape]
) -> None:
    """Raise ModelError unless `present` has exactly the names and shapes of `tensor_shapes(config)`."""
    layers = sum(getattr(config, field.name) for field in fields(config) if field.name.endswith("layers"))
    if layers > len(present):  # a damaged config must not make us list billions of names
        raise ModelError(f"the config asks for {layers} layers, but there are only {len(present)} tensors.")
    shapes = tensor_shapes(config)
    for name in sorted(shapes.keys() | present.keys()):
        if name not in present:
            raise ModelError(f"tensor {name!r} is missing.")
        if name not in shapes:
            raise ModelError(f"unknown tensor {name!r}.")
        if present[name] != shapes[name]:
            raise ModelError(f"tensor {name!r} has shape {present[name]}; the config asks for {shapes[name]}.")
