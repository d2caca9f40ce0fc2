"""Comparing the tensors that were found with those that a config asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from sharpbeam.errors import ModelError

Shape = tuple[int, ...]
SCALE = ".scale"  # suffix of the name of the scales of an int8 matrix


def compare_shapes(
    tensor_shapes: Callable[[Any], Mapping[str, Shape]], config: Any, present: Mapping[str, Shape]
) -> None:
    """Raise ModelError unless `found` has exactly the names and shapes of `tensor_shapes(config)`."""
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
