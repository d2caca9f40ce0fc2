"""Folders of CTranslate2: model.bin, config.json and vocabularies -> ours.

Weights of all its types are read; int8 stays int8, with the same scales. Names and meanings are those of its Python
specifications (ctranslate2/specs).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sharpbeam.convert.converted import Converted
from sharpbeam.convert.facts import Facts
from sharpbeam.convert.formats.ctranslate2 import ModelFile, read_model_file
from sharpbeam.convert.formats.spm import find_spms
from sharpbeam.convert.formats.weights import Stored, Tensor, Tensors, Weights, values
from sharpbeam.convert.readers.ctranslate2_attention import attention_facts, relative_positions, scale_outputs
from sharpbeam.convert.readers.ctranslate2_revision import renewed
from sharpbeam.convert.readers.positions import add_positions, with_sines_first
from sharpbeam.convert.readers.tokens import NO_SPM, Tags, TokenLists, read_list
from sharpbeam.convert.readers.transformer import add_tensors, in_layers
from sharpbeam.errors import ModelError
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.storage.tensors import Int8Matrix
from sharpbeam.text.json import WORDS, check_words, read_any_json, read_json

Activation = Literal["relu", "gelu", "gelu_sigmoid", "gelu_tanh", "swish"]
_ACTIVATIONS: dict[int, Activation] = {0: "relu", 1: "gelu_tanh", 2: "swish", 3: "gelu", 4: "gelu_sigmoid"}
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
_IDLE = ("encoder/embeddings_merge", "decoder/alibi_use_positive_positions", "decoder/scale_alibi")  # without these
_SPECIAL = {"unk": "<unk>", "eos": "</s>", "decoder_start": "<s>"}
_LANGUAGE = re.compile(r"__([a-z]{2,3})__|([a-z]{3}_[A-Z][a-z]{3})")


def read_ctranslate2(
    folder: Path, source_spm: Path | None = None, target_spm: Path | None = None, source_eos: bool = False
) -> Converted:
    """The model in `folder`; raises ModelError if it is no transformer for translation, or has a feature that we lack.

    Its folder need not have the SentencePiece models; without any text is pieces. With `source_eos` it was trained on
    sources that end in eos, though its config does not say so, and starts from <s>.
    """
    path = folder / "model.bin"
    file = read_model_file(path)
    if file.kind not in ("TransformerSpec", "TransformerBase", "TransformerBig"):
        raise ModelError(f"{path} holds a {file.kind!r:.60}; of CTranslate2's models TransformerSpec is read.")
    config_path = folder / "config.json"
    file, values = renewed(path, file, read_json(config_path) if config_path.is_file() else {})
    facts = Facts(config_path if file.version >= 6 else path, values)
    if values.get("decoder_start_token", "") is None:
        raise facts.refusal(
            "decoder_start_token",
            "a word. Null leaves it to each request what its answer starts from, which Sharpbeam lacks; write the word "
            "there if it is the same one for all, or convert the model that this one was made of",
        )
    facts.require("add_source_bos", [False])
    if facts.get("quantization_type"):
        raise facts.refusal("quantization_type", "left out; Sharpbeam lacks it")
    sizes, tensors = _CTranslate2Transformer(_weights(path, file)).read()
    epsilon = facts.get("layer_norm_epsilon")
    if epsilon is not None and not (isinstance(epsilon, float) and 0 < epsilon < 1):
        raise facts.refusal("layer_norm_epsilon", "a number between 0 and 1")
    epsilon = epsilon or (1e-6 if sizes["norm_kind"] == "rms" else 1e-5)
    # Tokenizers of Hugging Face end a source in </s> where CTranslate2 does not; models of OpenNMT-py, which start from
    # <s>, are trained without.
    bare = facts.text("decoder_start_token") in ("", "<s>") and not sizes["from_zero"]
    sizes |= {"source_eos": source_eos or facts.flag("add_source_eos") or not bare, "norm_epsilon": epsilon}
    lists = TokenLists(facts.path, *_vocabularies(folder), *find_spms(folder, source_spm, target_spm))
    return _with_tokens(facts, lists, sizes, tensors)


def _with_tokens(facts: Facts, lists: TokenLists, sizes: dict[str, Any], tensors: dict[str, Tensor]) -> Converted:
    """The model with its vocabularies, which have to be as long as the embeddings."""
    from_zero = sizes.pop("from_zero")
    special = {name: facts.text(f"{name}_token") or default for name, default in _SPECIAL.items()}
    for side in (lists.source, lists.target):
        if special["unk"] not in side:  # CTranslate2 adds it as the last one
            side.append(special["unk"])
    lists.check_sizes(sizes)
    ids = {f"{name}_id": lists.id(f"{name}_token", special[name]) for name in ("unk", "eos")}
    if not sizes["shared_embedding"] and (there := lists.source.index(special["unk"])) != (unk := ids["unk_id"]):
        # Models of OpenNMT-tf have it last on each side. We have one id for both: two rows of the source are exchanged.
        order = np.arange(len(lists.source))
        if unk < len(order):
            order[[there, unk]] = unk, there
        lists.source = [lists.source[token] for token in order]
        tensors["source_embedding"] = values(tensors["source_embedding"])[order]
    if from_zero:
        tensors, start = lists.add_start(tensors)
    else:
        start = lists.id("decoder_start_token", special["decoder_start"])
    pad = next((lists.target.index(token) for token in ("<pad>", "<blank>") if token in lists.target), start)
    ids |= {"bos_id": start, "pad_id": pad}
    tokens = lists.tokens(ids, _tags(lists, start == ids["eos_id"]))
    config = TransformerConfig(**sizes | tokens.facts)
    ends = "end in eos, as tokenizers of Hugging Face put it" if config.source_eos else "do not end in eos"
    notes = [] if lists.source_spm and lists.target_spm else [NO_SPM]
    notes += [] if facts.flag("add_source_eos") else [f"Sources {ends}."]
    return Converted("a CTranslate2 model", config, tensors, tokens.source, tokens.target, tuple(notes))


def _tags(lists: TokenLists, from_eos: bool) -> Tags:
    """The tags of languages; M2M100, NLLB and mBART-50, whose decoders start `from_eos`, have them on both sides."""
    codes = {match[1] or match[2]: i for i, word in enumerate(lists.target) if (match := _LANGUAGE.fullmatch(word))}
    if lists.source == lists.target and len(codes) > 1 and from_eos:
        facts = {"languages": codes, "source_tag": "source", "target_tag": True}
        return Tags(facts, codes.values(), codes.values())
    return lists.tags()


def _vocabularies(folder: Path) -> tuple[list[str], list[str]]:
    """Source and target tokens; one list if they are shared."""
    shared = _vocabulary(folder, "shared_vocabulary")
    if shared is not None:
        return shared, shared
    source, target = _vocabulary(folder, "source_vocabulary"), _vocabulary(folder, "target_vocabulary")
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
        """The facts of TransformerConfig except tokens, with `from_zero`; and the tensors. Raises ModelError."""
        self._refuse_what_we_lack()
        w, tensors = self._weights, self._tensors
        sizes = tensors.add_embeddings(
            ("encoder/embeddings_0/weight", "encoder/embeddings/weight"),
            ("decoder/embeddings/weight",),
            ("decoder/projection/weight",),  # vocabulary: its name
        )
        tokens, dim = sizes["target_vocab_size"], sizes["hidden_dim"]
        bias = "decoder/projection/bias"  # vocabulary: its name
        tensors["output_bias"] = w.take(bias, tokens) if bias in w else np.zeros(tokens, np.float32)
        sizes |= {
            "norm": "pre" if self._number("encoder/pre_norm", 1) else "post",
            "activation": self._activation(),
            "scaled_embedding": self._scaled(dim),
            "embedding_norm": "encoder/layernorm_embedding/gamma" in w,
            "gated_ffn": "encoder/layer_0/ffn/linear_0_noact/weight" in w,
            "norm_kind": "layer" if "encoder/layer_0/ffn/layer_norm/beta" in w else "rms",
        }
        for side in ("encoder", "decoder"):
            layers = next(i for i in count() if f"{side}/layer_{i}/ffn/linear_0/weight" not in w)
            if layers == 0:
                raise self._error(f"its {side} has no layers")
            sizes |= {
                f"{side}_layers": layers,
                f"{side}_heads": int(self._number(f"{side}/num_heads", 8)),
                f"{side}_ffn_dim": w.matrix_shape(f"{side}/layer_0/ffn/linear_0/weight")[0],
                f"{side}_final_norm": f"{side}/layer_norm/gamma" in w,
            }
        sizes |= attention_facts(w, sizes)
        relative = relative_positions(w, tensors, sizes)
        positions, interleaved = self._positions(dim) if relative is None else (relative, False)
        sizes |= positions
        linear = [name for name in w.names() if name.endswith("/bias") and "/linear_" in name]
        sizes |= {"attention_bias": any("attention/" in name for name in linear)}
        sizes |= {"ffn_bias": any("/ffn/" in name for name in linear)}
        from_zero = bool(self._number("decoder/start_from_zero_embedding", 0))
        add_tensors(tensors, sizes, _NAMES | _GATED if sizes["gated_ffn"] else _NAMES, zero_biases=True)
        scale_outputs(w, tensors)
        w.check_all_taken()
        return sizes | {"from_zero": from_zero}, with_sines_first(tensors, dim) if interleaved else tensors

    def _refuse_what_we_lack(self) -> None:
        """Raise ModelError by name for what CTranslate2 would compute and we do not."""
        for name, feature in _LACKED.items():
            if self._number(name, 0):
                raise self._error(f"it has {feature} ({name}), which Sharpbeam lacks")
        for name in _IDLE:
            self._number(name, 0)
        self._weights.ignore("decoder/alignment_layer", "decoder/alignment_heads")  # of attention that is returned
        if "encoder/embeddings_1/weight" in self._weights:
            raise self._error("it has source features (encoder/embeddings_1), which Sharpbeam lacks")
        if bool(self._number("encoder/pre_norm", 1)) != bool(self._number("decoder/pre_norm", 1)):
            raise self._error("pre_norm differs between encoder and decoder")

    def _activation(self) -> Activation:
        numbers = {int(self._number(f"{side}/activation", 0)) for side in ("encoder", "decoder")}
        if len(numbers) != 1 or not numbers <= _ACTIVATIONS.keys():
            known = ", ".join(f"{number} ({name})" for number, name in _ACTIVATIONS.items())
            raise self._error(f"activation is {sorted(numbers)}; it must be one of {known}, the same on both sides")
        return _ACTIVATIONS[numbers.pop()]

    def _scaled(self, dim: int) -> bool:
        """Whether embeddings are multiplied by sqrt(D), which is stored as a flag or as the number."""
        scaled = set()
        for side in ("encoder", "decoder"):
            name = f"{side}/scale_embeddings"
            value = self._number(name, 1)
            is_root = math.isclose(value, math.sqrt(dim), rel_tol=1e-5)
            if not is_root and value not in (0.0, 1.0):
                raise self._error(f"{name} is {value}; it must be 1 or the root of {dim}")
            scaled.add(is_root or (value == 1 and not self._weights.is_float(name)))
        if len(scaled) > 1:
            raise self._error("scale_embeddings differs between encoder and decoder")
        return scaled.pop()

    def _positions(self, dim: int) -> tuple[dict[str, Any], bool]:
        """The facts of positions, as `add_positions`; without tables CTranslate2's sinusoids begin with position 1."""
        names = [f"{side}/position_encodings/encodings" for side in ("encoder", "decoder")]
        tables = [self._weights.whole(name) for name in names if name in self._weights]
        if not tables:
            return {"positions": "sinusoidal-t2t", "position_offset": 1}, False
        if len(tables) != 2:
            raise self._error("it has position_encodings on one side; they must be on both")
        return add_positions(self._tensors, tables, dim)

    def _number(self, name: str, default: float) -> float:
        return self._weights.number(name, default)

    def _error(self, message: str) -> ModelError:
        return ModelError(f"{self._weights.path}: {message}.")
