"""The layers of a transformer under the names of another program; their shapes follow from our config."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sharpbeam.convert.formats.weights import Tensors
from sharpbeam.errors import ModelError
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.models.transformer.tensors import tensor_shapes


def add_layers(tensors: Tensors, sizes: Mapping[str, Any], theirs: Callable[[str], Sequence[str]]) -> None:
    """Add every tensor that is not there yet of a transformer with `sizes`, the facts of its config except tokens.

    `theirs` names the parts that one of ours is made of, whose rows follow each other; without parts it is zeros.
    Raises ModelError if a part is missing or of another shape.
    """
    config = TransformerConfig(**{**sizes, "unk_id": 0, "bos_id": 0, "eos_id": 0, "pad_id": 0})
    layers, most = config.encoder_layers + config.decoder_layers, len([*tensors.weights.names()])
    if layers > most:  # a damaged config must not make us list billions of names
        raise ModelError(f"{tensors.weights.path}: it says that it has {layers} layers, but it has {most} tensors.")
    for name, shape in tensor_shapes(config).items():
        if name in tensors:
            continue
        parts = theirs(name)
        if not parts:
            tensors[name] = np.zeros(shape, np.float32)
        elif len(shape) == 2:
            tensors.add_matrix(name, parts, shape[0] // len(parts), shape[1])
        else:
            tensors.add_vector(name, parts, shape[0] // len(parts))
