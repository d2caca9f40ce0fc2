"""Models of Marian, transformers and students with an SSRU: model.npz or .bin, with its vocabularies -> ours.

Names and meanings are those of Marian's src/models/transformer.h; positions are sinusoids of tensor2tensor, norms have
an epsilon of 1e-6. The decoder starts from a zero vector, for which a token with a zero embedding is appended.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.foreign import ForeignModel
from sharpbeam.convert.formats.marian import is_marian_file, read_marian_file, read_npz, read_options
from sharpbeam.convert.formats.weights import BFloat16, Stored, Tensor, Tensors, Weights
from sharpbeam.convert.readers.marian_files import MarianFiles, find_marian_files, read_vocabulary
from sharpbeam.convert.readers.tokens import TokenLists
from sharpbeam.convert.readers.transformer import add_tensors, in_layers
from sharpbeam.errors import ModelError
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.storage.marian_shortlist import read_marian_shortlist

_CONFIG = "special:model.yml"
_OUTPUT = "decoder_ff_logit_out"  # name of the output layer
# Names of the source's, the target's and the output layer's, which may be tied.
_EMBEDDINGS = (
    ("Wemb", "encoder_Wemb"),
    ("Wemb", "decoder_Wemb"),
    (f"{_OUTPUT}_W", f"{_OUTPUT}_Wt", "Wemb", "decoder_Wemb"),
)
_PRE_NORM = (
    "It is a pre-norm model (transformer-preprocess n): Marian's own decoder caches keys and values of earlier tokens "
    "without their norm, unlike Marian's training and scorer, so its output may differ. Sharpbeam applies the norm, as "
    "in training."
)

_ACTIVATIONS = {"relu": "relu", "swish": "swish", "gelu": "gelu"}
_EXACT_GELU = (1, 12, 3)  # the version from which on "gelu" is x Phi(x); before, it is x sigmoid(1.702 x)
_ONLY: dict[str, list[Any]] = {
    "layer-normalization": [False],
    "right-left": [False],
    "transformer-ffn-depth": [2],
    "transformer-decoder-ffn-depth": [0, 2],
    "transformer-attention-mask": ["default"],
    "transformer-no-projection": [False],
    "transformer-train-position-embeddings": [False],
    "transformer-disable-position-embeddings": [False],
    "transformer-pool": [False],
    "ulr": [False],
}
_NAMES = {
    "encoder_norm": "encoder_top_ln_{scale}",
    "decoder_norm": "decoder_top_ln_{scale}",
    "source_embedding_norm": "encoder_emb_ln_{scale}",
    "target_embedding_norm": "decoder_emb_ln_{scale}",
    **in_layers(
        "{side}_l{number}_",
        {
            "attention.norm": "self_Wo_ln_{scale}",
            "attention.qkv": "self_{W}<q|k|v>",
            "attention.out": "self_{W}o",
            "ssru.norm": "rnn_ffn_ln_{scale}",
            "ssru.cell": "rnn_<W|Wf>",  # whose bias is not all there
            "ssru.out": "rnn_{W}o",
            "cross.norm": "context_Wo_ln_{scale}",
            "cross.query": "context_{W}q",
            "cross.key_value": "context_{W}<k|v>",
            "cross.out": "context_{W}o",
            "ffn.norm": "ffn_ffn_ln_{scale}",
            "ffn.up": "ffn_{W}1",
            "ffn.down": "ffn_{W}2",
        },
    ),
}
_NORM_OF_SSRU = in_layers("{side}_l{number}_", {"ssru.norm": "rnn_ln_{scale}"})


def read_marian(path: Path, source: Path | None, target: Path | None) -> ForeignModel:
    """The model in `path`: .npz, Marian's binary form, or YAML options that name it, with its files next to it.

    `source` and `target` are its vocabularies, if the caller names them. Raises ModelError or InputError.
    """
    files = find_marian_files(path, source, target)
    path = files.model
    arrays: dict[str, Stored] = {**(read_marian_file(path) if is_marian_file(path) else read_npz(path))}
    config_bytes = arrays.pop(_CONFIG, None)
    if not isinstance(config_bytes, np.ndarray):
        raise ModelError(f"{path} lacks {_CONFIG}; it is no model of Marian.")
    facts = Facts(path, read_options(path, config_bytes.tobytes()))
    # Norms before a block have a suffix, which adds no information.
    names = {name: plain if (plain := name.removesuffix("_pre")) not in arrays else name for name in arrays}
    names = {name: ours for name, ours in names.items() if not name.startswith("special:")}
    arrays = {ours: _in_our_order(ours, arrays[name]) for name, ours in names.items()}
    tensors = Tensors(Weights(path, arrays))
    sizes = _read_transformer(facts, tensors)
    return _with_tokens(files, sizes, tensors)


def _read_transformer(facts: Facts, tensors: Tensors) -> dict[str, Any]:
    """Fill the `tensors`; returns the facts of TransformerConfig except tokens."""
    facts.choice("type", {"transformer": None})
    weights = tensors.weights
    for name, allowed in _ONLY.items():
        facts.require(name, allowed)
    if "Wpos" in weights:
        raise ModelError(f"{facts.path}: it has trained positions (Wpos), which are not read yet.")
    names = ("preprocess", "postprocess", "postprocess-top")
    before, after, top = (facts.text(f"transformer-{name}").replace("d", "") for name in names)
    if (before, after, top) not in (("", "an", ""), ("n", "a", "n")):
        raise facts.refusal("transformer-postprocess", "'dan', or 'da' with preprocess 'n' and postprocess-top 'n'")
    autoreg = facts.text("transformer-decoder-autoreg") or "self-attention"
    if autoreg not in ("self-attention", "rnn") or (autoreg == "rnn" and facts.text("dec-cell") != "ssru"):
        raise facts.refusal("transformer-decoder-autoreg", "self-attention, or rnn with dec-cell ssru")
    sizes = tensors.add_embeddings(*_EMBEDDINGS, f"{_OUTPUT}_b") | {
        "encoder_layers": facts.integer("enc-depth"),
        "decoder_layers": facts.integer("dec-depth"),
        "norm": "pre" if before else "post",
        "encoder_final_norm": bool(top),
        "decoder_final_norm": bool(top),
        "embedding_norm": "n" in facts.text("transformer-postprocess-emb"),
        "norm_epsilon": 1e-6,
        "activation": _activation(facts),
        "positions": "sinusoidal-t2t",
        "decoder_kind": "attention" if autoreg == "self-attention" else "ssru",
        "ssru_projection": autoreg == "rnn" and facts.flag("transformer-rnn-projection"),
    }
    for side in ("encoder", "decoder"):
        sizes[f"{side}_heads"] = facts.integer("transformer-heads")
        sizes[f"{side}_ffn_dim"] = weights.matrix_shape(f"{side}_l1_ffn_W1")[0]
    for layer in range(sizes["decoder_layers"] if sizes["decoder_kind"] == "ssru" else 0):
        forget = weights.take(f"decoder_l{layer + 1}_rnn_bf", sizes["hidden_dim"])
        tensors[f"decoder.{layer}.ssru.cell.bias"] = np.concatenate([np.zeros_like(forget), forget])
    add_tensors(tensors, sizes, _NAMES | _NORM_OF_SSRU if before else _NAMES)
    weights.check_all_taken()
    return sizes


def _activation(facts: Facts) -> str:
    """The activation as it was in the version of Marian that wrote the model."""
    name = facts.choice("transformer-ffn-activation", _ACTIVATIONS)
    version = re.match(r"v(\d+)\.(\d+)\.(\d+)", facts.text("version"))
    is_exact = version is not None and tuple(map(int, version.groups())) >= _EXACT_GELU
    return name if name != "gelu" or is_exact else "gelu_sigmoid"


def _with_tokens(files: MarianFiles, sizes: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> ForeignModel:
    """The model with its vocabularies, and with one more token on each side, from which the decoder starts."""
    source, source_spm = read_vocabulary(files.source, sizes["source_vocab_size"])
    target, target_spm = source, source_spm
    if (files.target, sizes["target_vocab_size"]) != (files.source, sizes["source_vocab_size"]):
        target, target_spm = read_vocabulary(files.target, sizes["target_vocab_size"])
    lists = TokenLists(files.model, source, target, source_spm, target_spm)
    ids = {"unk_id": lists.id("unk", "<unk>"), "eos_id": lists.id("eos", "</s>")}
    tensors, start = lists.add_start(tensors)
    tokens = lists.tokens(ids | {"bos_id": start, "pad_id": start})
    config = TransformerConfig(**{**sizes, **tokens.facts})
    shortlist, shared = None, tokens.source is tokens.target
    if files.shortlist is not None:
        vocabularies = len(tokens.source), len(tokens.target)
        shortlist = read_marian_shortlist(files.shortlist, *vocabularies, {*ids.values(), start}, shared)
    pre_norm = config.norm == "pre" and config.decoder_kind == "attention"
    notes = [*files.notes, *([_PRE_NORM] if pre_norm else [])]
    return ForeignModel(
        "a Marian model", config, tensors, tokens.source, tokens.target, tuple(notes), shortlist, files.decoding
    )


def _in_our_order(name: str, array: Stored) -> Stored:
    """A matrix [out, in], which Marian has as [in, out], except for embeddings; and a vector, which it has as a row."""
    if isinstance(array, BFloat16) or len(array.shape) != 2 or re.search(r"Wemb|_Wt$", name):
        return array
    is_vector = re.search(r"_b[a-z0-9]*$|_b_att$|_ln_(scale|bias)$", name) and array.shape[0] == 1
    return array.reshape(-1) if is_vector and isinstance(array, np.ndarray) else array.T
