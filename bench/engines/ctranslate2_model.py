"""A transformer of ours as a model of CTranslate2, so that both engines decode with the same weights."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness.cache import model_name, place, stamp
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.models.transformer.positions import sinusoid
from sharpbeam.storage.model_folder import read_config, read_tensors
from sharpbeam.text.vocabulary import read_vocabularies

POSITIONS = 1024


def home(folder: Path) -> Path:
    """Where the copies of the model in `folder` are kept, one for each precision."""
    return place("ctranslate2", model_name(folder), stamp(folder, code=("bench/engines/ctranslate2_model.py",)))


def write(folder: Path, to: Path, quantization: str) -> Path:
    """The model in `folder` at `to`, its weights in `quantization`; made where it is not there yet.

    The decoder starts from the word bos, as ours does.
    """
    from ctranslate2.specs import common_spec, transformer_spec

    if (to / "model.bin").is_file():
        return to
    config = read_config(folder)
    assert isinstance(config, TransformerConfig) and config.decoder_kind == "attention"
    assert config.positions != "none" and config.encoder_heads == config.decoder_heads
    activations = common_spec.Activation
    spec = transformer_spec.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.encoder_heads,
        pre_norm=config.norm == "pre",
        no_final_norm=not config.encoder_final_norm,
        activation={
            "relu": activations.RELU,
            "gelu": activations.GELU,
            "gelu_sigmoid": activations.GELUSigmoid,
            "swish": activations.SWISH,
        }[config.activation],
        layernorm_embedding=config.embedding_norm,
        ffn_glu=config.gated_ffn,
    )
    tensors = {name: tensor.copy() for name, tensor in read_tensors(folder, config).items()}  # rounding writes to them
    _fill(spec, config, tensors)
    source, target = read_vocabularies(folder)
    spec.register_source_vocabulary([source.piece(i) for i in range(len(source))])
    spec.register_target_vocabulary([target.piece(i) for i in range(len(target))])
    spec.config.decoder_start_token = target.piece(config.bos_id)
    spec.config.bos_token, spec.config.eos_token = target.piece(config.bos_id), target.piece(config.eos_id)
    spec.config.unk_token = target.piece(config.unk_id)
    spec.config.layer_norm_epsilon = config.norm_epsilon
    spec.validate()
    spec.optimize(quantization)
    to.mkdir(parents=True, exist_ok=True)
    spec.save(str(to))
    return to


def _fill(spec: Any, c: TransformerConfig, tensors: Any) -> None:
    """Put every weight where the specification has it."""

    def linear(to: Any, name: str) -> None:
        to.weight = tensors[f"{name}.weight"]
        if f"{name}.bias" in tensors:
            to.bias = tensors[f"{name}.bias"]

    def norm(to: Any, name: str) -> None:
        to.gamma, to.beta = tensors[f"{name}.weight"], tensors[f"{name}.bias"]

    def ffn(to: Any, name: str) -> None:
        norm(to.layer_norm, f"{name}.norm")
        linear(to.linear_0, f"{name}.up")
        if c.gated_ffn:
            weight, bias = to.linear_0.weight, tensors.get(f"{name}.up.bias")
            to.linear_0.weight, to.linear_0_noact.weight = np.split(weight, 2)
            if bias is not None:
                to.linear_0.bias, to.linear_0_noact.bias = np.split(bias, 2)
        linear(to.linear_1, f"{name}.down")

    def attention(to: Any, name: str, products: tuple[str, ...]) -> None:
        norm(to.layer_norm, f"{name}.norm")
        for part, product in zip(to.linear, (*products, "out"), strict=True):
            linear(part, f"{name}.{product}")

    target = tensors["target_embedding"]
    spec.encoder.embeddings[0].weight = target if c.shared_embedding else tensors["source_embedding"]
    spec.decoder.embeddings.weight = target
    spec.decoder.projection.weight = target if c.tied_output else tensors["output_weight"]  # vocabulary: its name
    spec.decoder.projection.bias = tensors["output_bias"]  # vocabulary: its name
    for side, ours in (("encoder", "source"), ("decoder", "target")):
        to = getattr(spec, side)
        to.scale_embeddings = math.sqrt(c.hidden_dim) if c.scaled_embedding else 1.0
        if c.positions in ("sinusoidal", "sinusoidal-t2t"):
            to.position_encodings.encodings = sinusoid(c.positions, c.position_offset, POSITIONS, c.hidden_dim)
        else:
            to.position_encodings.encodings = tensors[f"{ours}_positions"]
        if c.embedding_norm:
            norm(to.layernorm_embedding, f"{ours}_embedding_norm")
        if getattr(c, f"{side}_final_norm"):
            norm(to.layer_norm, f"{side}_norm")
        for i, layer in enumerate(to.layer):
            attention(layer.self_attention, f"{side}.{i}.attention", ("qkv",))
            if side == "decoder":
                attention(layer.attention, f"{side}.{i}.cross", ("query", "key_value"))
            ffn(layer.ffn, f"{side}.{i}.ffn")
