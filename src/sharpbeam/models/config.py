"""The part that all configs share: their checks, and the names and shapes of the tensors that follow from them.

Matrices are [out, in] as in PyTorch. A config's `tensor_shapes` is one list for the PyTorch module, the native twin and
the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Literal, TypeVar, get_args, get_origin

from sharpbeam.errors import ModelError, OptionError
from sharpbeam.options.schema import build, type_hints

T = TypeVar("T")
Shape = tuple[int, ...]
Shapes = dict[str, Shape]
SCALE = ".scale"  # suffix of the name of the scales of an int8 matrix


class ModelConfig:
    """Base of the configs, frozen dataclasses: creating one checks it; raises ModelError."""

    def __post_init__(self) -> None:
        """Check sizes (each whole number that is no id, and not 0 by default), choices, special ids, then the rest."""
        config: Any = self
        kind: Any = type(self)
        for field in fields(config):
            value = getattr(self, field.name)
            is_size = type(value) is int and not field.name.endswith("_id") and field.default != 0
            self.need(field.name, not is_size or value >= 1, "1 or more")
        for name, hint in type_hints(kind).items():
            if get_origin(hint) is Literal:
                choices = get_args(hint)
                self.need(name, getattr(self, name) in choices, f"one of {', '.join(choices)}")
        size = min(config.source_vocab_size, config.target_vocab_size)
        for name in ("unk_id", "bos_id", "eos_id", "pad_id"):
            self.need(name, 0 <= getattr(self, name) < size, f"below {size}, the size of the smaller vocabulary")
        if config.tied_output and config.hidden_dim != config.embedding_dim:
            widths = f"{config.hidden_dim} and {config.embedding_dim}"
            raise ModelError(f"tied_output needs hidden_dim = embedding_dim, but they are {widths}.")
        if getattr(self, "shared_embedding", False) and config.source_vocab_size != config.target_vocab_size:
            sizes = f"source_vocab_size is {config.source_vocab_size} and target_vocab_size {config.target_vocab_size}"
            raise ModelError(f"shared_embedding needs one vocabulary, but {sizes}.")
        self.check()

    def check(self) -> None:
        """Raise ModelError if the facts do not fit together."""

    def tensor_shapes(self) -> Shapes:
        """Every tensor of a model of this config, by name."""
        raise NotImplementedError

    def need(self, name: str, condition: bool, allowed: str) -> None:
        """Raise ModelError ("name is value; it must be allowed.") unless `condition` holds."""
        if not condition:
            raise ModelError(f"{name} is {getattr(self, name)!r}; it must be {allowed}.")


def from_facts(config_type: Callable[..., T], facts: dict[str, Any]) -> T:
    """Build a config from a JSON object; an unknown, missing or mistyped key raises ModelError by name."""
    try:
        return build(config_type, facts, "config")
    except OptionError as error:
        raise ModelError(str(error)) from None


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


def compare_shapes(config: Any, present: Mapping[str, Shape]) -> None:
    """Raise ModelError unless `present` has exactly the names and shapes of the config's tensors."""
    layers = sum(getattr(config, field.name) for field in fields(config) if field.name.endswith("layers"))
    if layers > len(present):  # a damaged config must not make us list billions of names
        raise ModelError(f"the config asks for {layers} layers, but there are only {len(present)} tensors.")
    shapes = config.tensor_shapes()
    for name in sorted(shapes.keys() | present.keys()):
        if name not in present:
            raise ModelError(f"tensor {name!r} is missing.")
        if name not in shapes:
            raise ModelError(f"unknown tensor {name!r}.")
        if present[name] != shapes[name]:
            raise ModelError(f"tensor {name!r} has shape {present[name]}; the config asks for {shapes[name]}.")
