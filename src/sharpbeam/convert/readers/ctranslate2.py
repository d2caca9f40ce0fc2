"""Folders of CTranslate2: model.bin, config.json and vocabularies -> ours.

Names and meanings are those of its Python specifications (ctranslate2/specs). Weights of all its types are read; int8
stays int8, with the same scales.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.foreign import ForeignModel
from sharpbeam.convert.formats.ctranslate2 import read_model_file
from sharpbeam.convert.formats.spm import find_spms
from sharpbeam.convert.formats.weights import Stored, Tensor, Tensors, Weights, values
from sharpbeam.convert.readers.tokens import NO_SPM, Tags, TokenLists, read_list
from sharpbeam.convert.readers.transformer import add_positions, add_tensors, in_layers, with_sines_first
from sharpbeam.errors import ModelError
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.storage.tensors import Int8Matrix
from sharpbeam.text.json import WORDS, check_words, read_any_json, read_json

_SPECIAL = {"unk": "<unk>", "eos": "</s>", "decoder_start": "<s>"}
_LANGUAGE = re.compile(r"__([a-z]{2,3})__|([a-z]{3}_[A-Z][a-z]{3})")
_ACTIVATIONS = {0: "relu", 1: "gelu_tanh", 2: "swish", 3: "gelu", 4: "gelu_sigmoid"}
_SIDES = ("encoder", "decoder")
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


def read_ctranslate2(folder: Path, source_spm: Path | None = None, target_spm: Path | None = None) -> ForeignModel:
    """The model in `folder`; raises ModelError if it is no transformer for translation, or has a feature that we lack.

    Its folder need not have the SentencePiece models; without any text is pieces.
    """
    path = folder / "model.bin"
    kind, variables = read_model_file(path)
    if kind != "TransformerSpec":
        raise ModelError(f"{path} holds a {kind!r:.60}; of CTranslate2's models TransformerSpec is read.")
    config_path = folder / "config.json"
    config = read_json(config_path) if config_path.is_file() else {}
    facts = Facts(config_path, config)
    if config.get("decoder_start_token", "") is None:
        raise facts.refusal(
            "decoder_start_token",
            "a word. Null lets each request name the first word of its answer, which Sharpbeam lacks; write the word "
            "there if it is the same one for all, or convert the model that this one was made of",
        )
    facts.require("add_source_bos", [False])
    if facts.get("quantization_type"):
        raise facts.refusal("quantization_type", "left out; Sharpbeam lacks it")
    weights = _weights(path, variables)
    from_zero = bool(weights.number("decoder/start_from_zero_embedding", 0))
    sizes, tensors = _read_transformer(Tensors(weights))
    epsilon = facts.get("layer_norm_epsilon")
    if epsilon is not None and not (isinstance(epsilon, float) and 0 < epsilon < 1):
        raise facts.refusal("layer_norm_epsilon", "a number between 0 and 1")
    epsilon = epsilon or (1e-6 if sizes["norm_kind"] == "rms" else 1e-5)
    # Tokenizers of Hugging Face end a source in </s>, which CTranslate2 leaves to them; models of OpenNMT-py, which
    # start from <s>, are trained without.
    bare = facts.text("decoder_start_token") in ("", "<s>") and not from_zero
    sizes |= {"source_eos": facts.flag("add_source_eos") or not bare, "norm_epsilon": epsilon}
    lists = TokenLists(facts.path, *_vocabularies(folder), *find_spms(folder, source_spm, target_spm))
    return _with_tokens(facts, lists, from_zero, sizes, tensors)


def _with_tokens(
    facts: Facts, lists: TokenLists, from_zero: bool, sizes: dict[str, Any], tensors: dict[str, Tensor]
) -> ForeignModel:
    """The model with its vocabularies, which have to be as long as the embeddings."""
    shared = lists.source is lists.target
    special = {name: facts.text(f"{name}_token") or default for name, default in _SPECIAL.items()}
    for side in (lists.source, lists.target):
        if special["unk"] not in side:  # CTranslate2 adds it as the last one
            side.append(special["unk"])
    lists.check_sizes(sizes)
    ids = {f"{name}_id": lists.id(f"{name}_token", special[name]) for name in ("unk", "eos")}
    there, unk = lists.source.index(special["unk"]), ids["unk_id"]
    if not sizes["shared_embedding"] and there != unk < len(lists.source):
        # Models of OpenNMT-tf have it last on each side. We have one id for both: two rows of the source are exchanged.
        order = np.arange(len(lists.source))
        order[[there, unk]] = unk, there
        lists.source = [lists.source[token] for token in order]
        tensors["source_embedding"] = values(tensors["source_embedding"])[order]
    if from_zero:
        tensors, start = lists.add_start(tensors)
    else:
        start = lists.id("decoder_start_token", special["decoder_start"])
    pad = next((lists.target.index(token) for token in ("<pad>", "<blank>") if token in lists.target), start)
    ids |= {"bos_id": start, "pad_id": pad}
    tokens = lists.tokens(ids, _tags(lists, shared, start == ids["eos_id"]))
    config = TransformerConfig(**sizes | tokens.facts)
    ends = "end in eos, as tokenizers of Hugging Face put it" if config.source_eos else "do not end in eos"
    notes = [] if lists.source_spm and lists.target_spm else [NO_SPM]
    notes += [] if facts.flag("add_source_eos") else [f"Sources {ends}."]
    return ForeignModel("a CTranslate2 model", config, tensors, tokens.source, tokens.target, tuple(notes))


def _tags(lists: TokenLists, shared: bool, from_eos: bool) -> Tags:
    """The tags of languages; M2M100 and NLLB, whose decoders start `from_eos`, have them on both sides."""
    if "en_XX" in lists.target:
        raise ModelError("mBART in CTranslate2's format does not say how text is split; convert Hugging Face's model.")
    codes = {match[1] or match[2]: i for i, word in enumerate(lists.target) if (match := _LANGUAGE.fullmatch(word))}
    if shared and len(codes) > 1 and from_eos:
        facts = {"languages": codes, "source_tag": "source", "target_tag": True}
        return Tags(facts, codes.values(), codes.values())
    return lists.tags(shared)


def _vocabularies(folder: Path) -> tuple[list[str], list[str]]:
    """Source and target tokens; one list if they are shared."""
    shared, source, target = (_vocabulary(folder, f"{name}_vocabulary") for name in ("shared", "source", "target"))
    if shared is not None:
        return shared, shared
    if source is None or target is None:
        raise ModelError(f"{folder} has neither shared_vocabulary nor source_vocabulary and target_vocabulary.")
    return source, target


def _vocabulary(folder: Path, name: str) -> list[str] | None:
    """The tokens of one file; None if there is none."""
    path = folder / f"{name}.json"
    if not path.is_file():
        path = folder / f"{name}.txt"
        return read_list(path) if path.is_file() else None
    tokens = read_any_json(path, WORDS)
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise ModelError(f"{path} must be a list of words.")
    check_words(path, tokens)
    return tokens


def _weights(path: Path, variables: Mapping[str, Stored]) -> Weights:
    """The variables of a model, each matrix of integers with its scales; raises ModelError if it has none."""
    arrays: dict[str, Stored] = {}
    for name, array in variables.items():
        if name.endswith("_scale") and name.removesuffix("_scale") in variables:
            continue
        integers = isinstance(array, np.ndarray) and array.dtype.kind == "i" and name.endswith("/weight")
        arrays[name] = _quantized(path, name, array, variables) if integers else array
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


def _read_transformer(t: Tensors) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The facts of TransformerConfig except tokens, and the tensors."""
    w = t.weights
    _refuse_what_we_lack(w)
    sizes = t.add_embeddings(
        ("encoder/embeddings_0/weight",),
        ("decoder/embeddings/weight",),
        ("decoder/projection/weight",),  # vocabulary: its name
        "decoder/projection/bias",  # vocabulary: its name
    )
    dim, activation = sizes["hidden_dim"], int(_of_both(w, "activation", 0))
    if activation not in _ACTIVATIONS:
        raise _error(w, f"activation is {activation}; it must be one of {_ACTIVATIONS}")
    sizes |= {
        "norm": "pre" if _of_both(w, "pre_norm", 1) else "post",
        "activation": _ACTIVATIONS[activation],
        "scaled_embedding": _is_scaled(w, dim),
        "embedding_norm": "encoder/layernorm_embedding/gamma" in w,
        "gated_ffn": "encoder/layer_0/ffn/linear_0_noact/weight" in w,
        "norm_kind": "layer" if "encoder/layer_0/ffn/layer_norm/beta" in w else "rms",
    }
    for side in _SIDES:
        layers = next(i for i in count() if f"{side}/layer_{i}/ffn/linear_0/weight" not in w)
        if layers == 0:
            raise _error(w, f"its {side} has no layers")
        sizes |= {
            f"{side}_layers": layers,
            f"{side}_heads": int(w.number(f"{side}/num_heads", 8)),
            f"{side}_ffn_dim": w.matrix_shape(f"{side}/layer_0/ffn/linear_0/weight")[0],
            f"{side}_final_norm": f"{side}/layer_norm/gamma" in w,
        }
    sizes |= _attention(w, sizes)
    positions, interleaved = _positions(t, sizes)
    sizes |= positions
    linear = [name for name in w.arrays if name.endswith("/bias") and "/linear_" in name]
    sizes["attention_bias"] = any("attention/" in name for name in linear)
    sizes["ffn_bias"] = any("/ffn/" in name for name in linear)
    add_tensors(t, sizes, _NAMES | _GATED if sizes["gated_ffn"] else _NAMES, zero_biases=True)
    _share_biases(t, sizes)
    _scale_outputs(t)
    w.check_all_taken()
    return sizes, with_sines_first(t, dim) if interleaved else t


def _refuse_what_we_lack(w: Weights) -> None:
    """Raise ModelError by name for a feature of CTranslate2 that we lack."""
    for name, feature in _LACKED.items():
        if w.number(name, 0):
            raise _error(w, f"it has {feature} ({name}), which Sharpbeam lacks")
    w.ignore(*_IDLE)
    if "encoder/embeddings_1/weight" in w:
        raise _error(w, "it has source features (encoder/embeddings_1), which Sharpbeam lacks")


def _is_scaled(w: Weights, dim: int) -> bool:
    """Whether embeddings are multiplied by sqrt(D), which is stored as a flag or as the number."""
    value, array = _of_both(w, "scale_embeddings", 1), w.arrays.get("encoder/scale_embeddings")
    is_root = math.isclose(value, math.sqrt(dim), rel_tol=1e-5)
    if not is_root and value not in (0.0, 1.0):
        raise _error(w, f"scale_embeddings is {value}; it must be 1 or the root of {dim}")
    return is_root or (value == 1 and not (isinstance(array, np.ndarray) and array.dtype.kind == "f"))


def _attention(w: Weights, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """head_dim and scaled_attention; raises ModelError if layers differ in them."""
    rows, _ = w.matrix_shape("encoder/layer_0/self_attention/linear_0/weight")
    head_dim = 0 if rows == 3 * sizes["hidden_dim"] else rows // (3 * max(sizes["encoder_heads"], 1))
    names = [f"{attention}/queries_scale" for attention in _attentions(sizes, cross=True)]
    scales = [w.number(name, 1.0) for name in names if name in w]
    if scales and scales != [1.0] * len(names):
        where = f"{len(scales)} of {len(names)} attentions"
        raise _error(w, f"queries_scale is {sorted(set(scales))} in {where}; it must be 1 in all, or left out")
    return {"head_dim": head_dim, "scaled_attention": not scales}


def _positions(t: Tensors, sizes: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """The facts of positions, as `add_positions`; without tables CTranslate2's sinusoids begin with position 1."""
    w, attentions = t.weights, _attentions(sizes)
    if f"{attentions[0]}/{_BIAS}" in w:
        distances = {w.number(f"{attention}/{_DISTANCE}", 128.0) for attention in attentions}
        if len(distances) != 1:
            raise _error(w, f"{_DISTANCE} is {sorted(distances)}; it must be the same in all layers")
        buckets, _ = w.matrix_shape(f"{attentions[0]}/{_BIAS}")
        distance = int(distances.pop())
        return {"positions": "relative", "relative_buckets": buckets, "relative_distance": distance}, False
    names = [f"{side}/position_encodings/encodings" for side in _SIDES]
    tables = [w.take(name) for name in names if name in w]
    if not tables:
        return {"positions": "sinusoidal-t2t", "position_offset": 1}, False
    if len(tables) != 2:
        raise _error(w, "it has position_encodings on one side; they must be on both")
    return add_positions(t, tables, sizes["hidden_dim"])


def _share_biases(t: Tensors, sizes: dict[str, Any]) -> None:
    """Make one of the tables of relative positions that all layers of a side have in common."""
    if sizes["positions"] != "relative":
        return
    layers = {side: range(sizes[f"{side}_layers"]) for side in _SIDES}
    names = {side: [f"{side}.{i}.attention.position_bias" for i in layers[side]] for side in _SIDES}
    if all(np.array_equal(values(t[name]), values(t[own[0]])) for own in names.values() for name in own):
        sizes["positions"] = "relative-shared"
        for side, own in names.items():
            t[f"{side}_position_bias"] = t[own[0]]
            for name in own:
                del t[name]


def _scale_outputs(t: Tensors) -> None:
    """Multiply the decoder's last norm by scale_outputs, of hidden vectors; raises ModelError without that norm."""
    name = "decoder/scale_outputs"
    scale = t.weights.number(name, 1.0)
    norms = [norm for norm in ("decoder_norm.weight", "decoder_norm.bias") if norm in t]
    if scale != 1.0 and not norms:
        raise _error(t.weights, f"{name} is {scale:.5g}, and the decoder has no last norm to scale")
    for norm in norms:
        t[norm] = values(t[norm]) * np.float32(scale)


def _of_both(w: Weights, name: str, default: float) -> float:
    """A number of both sides; raises ModelError if they differ."""
    numbers = {w.number(f"{side}/{name}", default) for side in _SIDES}
    if len(numbers) > 1:
        raise _error(w, f"{name} is {sorted(numbers)}; it must be the same on both sides")
    return numbers.pop()


def _error(w: Weights, message: str) -> ModelError:
    return ModelError(f"{w.path}: {message}.")


def _attentions(sizes: Mapping[str, Any], cross: bool = False) -> list[str]:
    """The names of all attentions of source and target to themselves; with `cross`, of the target to the source too."""
    kinds = {"encoder": ["self_attention"], "decoder": ["self_attention", *(["attention"] if cross else [])]}
    layers = [(side, layer) for side in _SIDES for layer in range(sizes[f"{side}_layers"])]
    return [f"{side}/layer_{layer}/{kind}" for side, layer in layers for kind in kinds[side]]
