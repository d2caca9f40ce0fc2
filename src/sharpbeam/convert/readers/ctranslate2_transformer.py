"""Transformers of CTranslate2: their variables -> our tensors.

Names and meanings are those of its Python specifications (ctranslate2/specs). Weights of all its types are read; int8
stays int8, with the same scales.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sharpbeam.convert.formats.ctranslate2 import ModelFile
from sharpbeam.convert.formats.weights import Stored, Tensor, Tensors, Weights, values
from sharpbeam.convert.readers.positions import add_positions, with_sines_first
from sharpbeam.convert.readers.transformer import add_tensors, in_layers
from sharpbeam.errors import ModelError
from sharpbeam.storage.tensors import Int8Matrix

Activation = Literal["relu", "gelu", "gelu_sigmoid", "gelu_tanh", "swish"]
_ACTIVATIONS: dict[int, Activation] = {0: "relu", 1: "gelu_tanh", 2: "swish", 3: "gelu", 4: "gelu_sigmoid"}
_SIDES: tuple[Literal["encoder", "decoder"], ...] = ("encoder", "decoder")
_BIAS, _DISTANCE = "relative_attention_bias", "relative_attention_max_distance"
_NAMES = {
    "encoder_norm": "encoder/layer_norm/{gamma}",
    "decoder_norm": "decoder/layer_norm/{gamma}",
    "source_embedding_norm": "encoder/layernorm_embedding/{gamma}",
    "target_embedding_norm": "decoder/layernorm_embedding/{gamma}",
    **in_layers(
        "{side}/layer_{layer}/",
        {
            "attention.norm": "self_attention/layer_norm/{gamma}",
            "attention.qkv": "self_attention/linear_0/{end}",
            "attention.out": "self_attention/linear_1/{end}",
            "attention.position_bias": f"self_attention/{_BIAS}",
            "cross.norm": "attention/layer_norm/{gamma}",
            "cross.query": "attention/linear_0/{end}",
            "cross.key_value": "attention/linear_1/{end}",
            "cross.out": "attention/linear_2/{end}",
            "ffn.norm": "ffn/layer_norm/{gamma}",
            "ffn.up": "ffn/linear_0/{end}",
            "ffn.down": "ffn/linear_1/{end}",
        },
    ),
}
_GATED = in_layers("{side}/layer_{layer}/", {"ffn.up": "ffn/<linear_0|linear_0_noact>/{end}"})
_LACKED = {  # features that would change the answers, by the variable that is not 0 with them
    "decoder/alibi": "ALiBi positions",
    "encoder/multi_query_attention": "multi-query attention",
    "decoder/multi_query_attention": "multi-query attention",
}
_IDLE = (  # without these, and of attention that is returned
    "encoder/embeddings_merge",
    "decoder/alibi_use_positive_positions",
    "decoder/scale_alibi",
    "decoder/alignment_layer",
    "decoder/alignment_heads",
)


def read_transformer(path: Path, file: ModelFile) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The facts of TransformerConfig except tokens, with `from_zero`; and the tensors. Raises ModelError."""
    return _CTranslate2Transformer(_weights(path, file)).read()


def _weights(path: Path, file: ModelFile) -> Weights:
    """The variables of a model, each matrix of integers with its scales; raises ModelError if it has none."""
    arrays: dict[str, Stored] = {}
    for name, array in file.variables.items():
        if name.endswith("_scale") and name.removesuffix("_scale") in file.variables:
            continue
        integers = isinstance(array, np.ndarray) and array.dtype.kind == "i" and name.endswith("/weight")
        arrays[name] = _quantized(path, name, array, file.variables) if integers else array
    return Weights(path, arrays)


def _quantized(path: Path, name: str, integers: Any, variables: Mapping[str, Stored]) -> Stored:
    """A matrix of integers [rows, columns] with one scale for each row, or for all; 16 bits become float32."""
    scale = variables.get(f"{name}_scale")
    if integers.ndim != 2:
        raise ModelError(f"{path}: {name} has shape {integers.shape}; it must have two axes.")
    if not isinstance(scale, np.ndarray) or scale.dtype.kind != "f" or scale.shape not in ((), (1,), (len(integers),)):
        raise ModelError(f"{path}: {name} holds {integers.dtype} without a scale for its rows.")
    matrix = Int8Matrix(integers, scale.astype(np.float32).reshape(-1, 1))
    with np.errstate(all="ignore"):
        return matrix if integers.itemsize == 1 else matrix.values()


class _CTranslate2Transformer:
    """The variables of a model, and our tensors."""

    def __init__(self, weights: Weights) -> None:
        self._weights, self._tensors = weights, Tensors(weights)

    def read(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        self._refuse_what_we_lack()
        w, tensors = self._weights, self._tensors
        sizes = tensors.add_embeddings(
            ("encoder/embeddings_0/weight",),
            ("decoder/embeddings/weight",),
            ("decoder/projection/weight",),  # vocabulary: its name
            "decoder/projection/bias",  # vocabulary: its name
        )
        dim = sizes["hidden_dim"]
        sizes |= {
            "norm": "pre" if self._of_both("pre_norm", 1) else "post",
            "activation": self._activation(),
            "scaled_embedding": self._is_scaled(dim),
            "embedding_norm": "encoder/layernorm_embedding/gamma" in w,
            "gated_ffn": "encoder/layer_0/ffn/linear_0_noact/weight" in w,
            "norm_kind": "layer" if "encoder/layer_0/ffn/layer_norm/beta" in w else "rms",
        }
        for side in _SIDES:
            layers = next(i for i in count() if f"{side}/layer_{i}/ffn/linear_0/weight" not in w)
            if layers == 0:
                raise self._error(f"its {side} has no layers")
            sizes |= {
                f"{side}_layers": layers,
                f"{side}_heads": int(w.number(f"{side}/num_heads", 8)),
                f"{side}_ffn_dim": w.matrix_shape(f"{side}/layer_0/ffn/linear_0/weight")[0],
                f"{side}_final_norm": f"{side}/layer_norm/gamma" in w,
            }
        sizes |= self._attention(sizes)
        positions, interleaved = self._positions(sizes)
        sizes |= positions
        linear = [name for name in w.names() if name.endswith("/bias") and "/linear_" in name]
        sizes |= {"attention_bias": any("attention/" in name for name in linear)}
        sizes |= {"ffn_bias": any("/ffn/" in name for name in linear)}
        from_zero = bool(w.number("decoder/start_from_zero_embedding", 0))
        add_tensors(tensors, sizes, _NAMES | _GATED if sizes["gated_ffn"] else _NAMES, zero_biases=True)
        self._share_biases(sizes)
        self._scale_outputs()
        w.check_all_taken()
        return sizes | {"from_zero": from_zero}, with_sines_first(tensors, dim) if interleaved else tensors

    def _refuse_what_we_lack(self) -> None:
        """Raise ModelError by name for a feature of CTranslate2 that we lack."""
        for name, feature in _LACKED.items():
            if self._weights.number(name, 0):
                raise self._error(f"it has {feature} ({name}), which Sharpbeam lacks")
        self._weights.ignore(*_IDLE)
        if "encoder/embeddings_1/weight" in self._weights:
            raise self._error("it has source features (encoder/embeddings_1), which Sharpbeam lacks")

    def _activation(self) -> Activation:
        number = int(self._of_both("activation", 0))
        if number not in _ACTIVATIONS:
            choices = ", ".join(f"{code} ({name})" for code, name in _ACTIVATIONS.items())
            raise self._error(f"activation is {number}; it must be one of {choices}")
        return _ACTIVATIONS[number]

    def _is_scaled(self, dim: int) -> bool:
        """Whether embeddings are multiplied by sqrt(D), which is stored as a flag or as the number."""
        value = self._of_both("scale_embeddings", 1)
        is_root = math.isclose(value, math.sqrt(dim), rel_tol=1e-5)
        if not is_root and value not in (0.0, 1.0):
            raise self._error(f"scale_embeddings is {value}; it must be 1 or the root of {dim}")
        return is_root or (value == 1 and not self._weights.is_float("encoder/scale_embeddings"))

    def _attention(self, sizes: Mapping[str, Any]) -> dict[str, Any]:
        """head_dim and scaled_attention; raises ModelError if layers differ in them."""
        rows, _ = self._weights.matrix_shape("encoder/layer_0/self_attention/linear_0/weight")
        head_dim = 0 if rows == 3 * sizes["hidden_dim"] else rows // (3 * max(sizes["encoder_heads"], 1))
        names = [f"{attention}/queries_scale" for attention in _attentions(sizes, cross=True)]
        scales = [self._weights.number(name, 1.0) for name in names if name in self._weights]
        if scales and scales != [1.0] * len(names):
            where = f"{len(scales)} of {len(names)} attentions"
            raise self._error(f"queries_scale is {sorted(set(scales))} in {where}; it must be 1 in all, or left out")
        return {"head_dim": head_dim, "scaled_attention": not scales}

    def _positions(self, sizes: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """The facts of positions, as `add_positions`; without tables CTranslate2's sinusoids begin with position 1."""
        w, attentions = self._weights, _attentions(sizes)
        if f"{attentions[0]}/{_BIAS}" in w:
            distances = {w.number(f"{attention}/{_DISTANCE}", 128.0) for attention in attentions}
            if len(distances) != 1:
                raise self._error(f"{_DISTANCE} is {sorted(distances)}; it must be the same in all layers")
            buckets, _ = w.matrix_shape(f"{attentions[0]}/{_BIAS}")
            distance = int(distances.pop())
            return {"positions": "relative", "relative_buckets": buckets, "relative_distance": distance}, False
        names = [f"{side}/position_encodings/encodings" for side in _SIDES]
        tables = [w.whole(name) for name in names if name in w]
        if not tables:
            return {"positions": "sinusoidal-t2t", "position_offset": 1}, False
        if len(tables) != 2:
            raise self._error("it has position_encodings on one side; they must be on both")
        return add_positions(self._tensors, tables, sizes["hidden_dim"])

    def _share_biases(self, sizes: dict[str, Any]) -> None:
        """Make one of the tables of relative positions that all layers of a side have in common."""
        if sizes["positions"] != "relative":
            return
        t, layers = self._tensors, {side: range(sizes[f"{side}_layers"]) for side in _SIDES}
        names = {side: [f"{side}.{i}.attention.position_bias" for i in layers[side]] for side in _SIDES}
        if all(np.array_equal(values(t[name]), values(t[own[0]])) for own in names.values() for name in own):
            sizes["positions"] = "relative-shared"
            for side, own in names.items():
                t[f"{side}_position_bias"] = t[own[0]]
                for name in own:
                    del t[name]

    def _scale_outputs(self) -> None:
        """Multiply the decoder's last norm by scale_outputs, of hidden vectors; raises ModelError without that norm."""
        name = "decoder/scale_outputs"
        scale = self._weights.number(name, 1.0)
        norms = [norm for norm in ("decoder_norm.weight", "decoder_norm.bias") if norm in self._tensors]
        if scale != 1.0 and not norms:
            raise self._error(f"{name} is {scale:.5g}, and the decoder has no last norm to scale")
        for norm in norms:
            self._tensors[norm] = values(self._tensors[norm]) * np.float32(scale)

    def _of_both(self, name: str, default: float) -> float:
        """A number of both sides; raises ModelError if they differ."""
        numbers = {self._weights.number(f"{side}/{name}", default) for side in _SIDES}
        if len(numbers) > 1:
            raise self._error(f"{name} is {sorted(numbers)}; it must be the same on both sides")
        return numbers.pop()

    def _error(self, message: str) -> ModelError:
        return ModelError(f"{self._weights.path}: {message}.")


def _attentions(sizes: Mapping[str, Any], cross: bool = False) -> list[str]:
    """The names of all attentions of source and target to themselves; with `cross`, of the target to the source too."""
    kinds = {"encoder": ["self_attention"], "decoder": ["self_attention", *(["attention"] if cross else [])]}
    layers = [(side, layer) for side in _SIDES for layer in range(sizes[f"{side}_layers"])]
    return [f"{side}/layer_{layer}/{kind}" for side, layer in layers for kind in kinds[side]]
