"""Checkpoints of OpenNMT-py 3 (.pt): transformers for translation, with the vocabularies that the file itself has.

Names and meanings are those of its onmt/encoders/transformer.py, onmt/decoders/transformer.py and onmt/modules. The
file is a pickle of tensors, lists and an argparse.Namespace, of which the attributes are read and nothing is called.
Sources do not end in eos. Its usual sinusoids are interleaved, a sine and a cosine of each frequency; ours are sines,
then cosines, so that everything that reads or writes the layers' vectors is put into that order.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.foreign import ForeignModel
from sharpbeam.convert.formats.spm import find_spms
from sharpbeam.convert.formats.torch import read_torch, tensors_of
from sharpbeam.convert.formats.weights import Tensor, Tensors, Weights, with_zero_row
from sharpbeam.convert.readers.positions import recognize, with_sines_first
from sharpbeam.convert.readers.tokens import NO_SPM, TokenLists
from sharpbeam.convert.readers.transformer import add_tensors, in_layers
from sharpbeam.errors import ModelError
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.models.transformer.positions import Sinusoid
from sharpbeam.text.json import check_words

_ONLY: dict[str, list[Any]] = {
    "model_task": ["seq2seq"],
    "model_type": ["text"],
    "copy_attn": [False],
    "self_attn_type": ["scaled-dot", "scaled-dot-flash"],
    "max_relative_positions": [0],
    "relative_positions_buckets": [0],
    "parallel_residual": [False],
    "layer_norm": ["standard"],
    "multiquery": [False],
    "num_experts": [0],
    "sliding_window": [0],
    "n_src_feats": [0],
    "lora_layers": [[]],
    "lora_embedding": [False],
    "quant_layers": [[]],
}
_ACTIVATIONS = {"relu": ("relu", False), "gelu": ("gelu", False), "silu": ("swish", True), "gated-gelu": ("gelu", True)}
_POSITIONS: dict[str, Sinusoid] = {"SinusoidalInterleaved": "sinusoidal", "SinusoidalConcat": "sinusoidal-t2t"}
_DEFAULTS = {
    "heads": 8,
    "norm_eps": 1e-6,
    "pos_ffn_activation_fn": "relu",
    "position_encoding_type": "SinusoidalInterleaved",
}
_NAMES = {
    "encoder_norm": "encoder.layer_norm.{end}",
    "decoder_norm": "decoder.layer_norm.{end}",
    **in_layers(
        "{side}.transformer.{layer}.",
        {
            "encoder.attention.norm": "layer_norm",
            "decoder.attention.norm": "layer_norm_1",
            "attention.qkv": "self_attn.linear_<query|keys|values>",
            "attention.out": "self_attn.final_linear",
            "cross.norm": "layer_norm_2",
            "cross.query": "context_attn.linear_query",
            "cross.key_value": "context_attn.linear_<keys|values>",
            "cross.out": "context_attn.final_linear",
            "ffn.norm": "feed_forward.layer_norm",
            "ffn.up": "feed_forward.w_1",
            "ffn.down": "feed_forward.w_2",
        },
        ".{end}",
    ),
}
_GATED = in_layers("{side}.transformer.{layer}.", {"ffn.up": "feed_forward.<w_1|w_3>.{end}"})
_NEWER = {".a_2": ".weight", ".b_2": ".bias", "decoder.transformer_layers.": "decoder.transformer."}


def read_open_nmt(path: Path, source_spm: Path | None = None, target_spm: Path | None = None) -> ForeignModel:
    """The model in `path`; raises ModelError. Without a SentencePiece model text is pieces with spaces between."""
    saved = _checkpoint(path)
    facts = Facts(path, saved["opt"], _DEFAULTS)
    for side in ("encoder", "decoder"):
        facts.choice(f"{side}_type", {"transformer": None})
    for name, allowed in _ONLY.items():
        facts.require(name, allowed)
    facts.require("num_kv", [0, facts.integer("heads")])
    arrays = {_newer(name): array for name, array in saved["model"].items()}
    arrays |= {f"generator.{name.removeprefix('0.')}": array for name, array in saved["generator"].items()}
    sizes, tensors = _read_transformer(facts, Weights(path, arrays))
    source, target = (_tokens(path, saved["vocab"], side) for side in ("src", "tgt"))
    lists = TokenLists(path, source, target, *find_spms(path.parent, source_spm, target_spm))
    lists.check_sizes(sizes)
    start = Facts(path, saved["vocab"], {"decoder_start_token": "<s>"}).text("decoder_start_token")
    special = {"unk_id": "<unk>", "bos_id": start, "eos_id": "</s>", "pad_id": "<blank>"}
    ids = {name: lists.id(name, token) for name, token in special.items()}
    _add_special(lists, tensors, ids)
    tokens = lists.tokens(ids)
    config = TransformerConfig(**sizes | tokens.facts, source_eos=False)
    notes = () if lists.source_spm and lists.target_spm else (NO_SPM,)
    return ForeignModel("a model of OpenNMT-py", config, tensors, tokens.source, tokens.target, notes)


def _checkpoint(path: Path) -> dict[str, dict[str, Any]]:
    """The dicts of the file that are read: weights by name, vocabularies and options."""
    try:
        saved = read_torch(path)
    except ModelError as error:
        if "torchtext" in str(error) or "onmt." in str(error):
            raise ModelError(
                f"{path} is of OpenNMT-py 2 or older, whose vocabulary is pickled objects of torchtext; they are not "
                "read. Make it a model of version 3 first, with OpenNMT-py's tools/convertv2_v3.py."
            ) from error
        raise
    parts = ("model", "generator", "vocab", "opt")
    if isinstance(saved, dict) and isinstance(saved.get("opt"), Namespace):
        saved["opt"] = vars(saved["opt"])
    if not isinstance(saved, dict) or not all(isinstance(saved.get(part), dict) for part in parts):
        raise ModelError(
            f"{path} is no whole checkpoint of OpenNMT-py: it must have {', '.join(parts)}. Weights in safetensors "
            "next to it are not read; save it with save_format pytorch."
        )
    tensors = {part: tensors_of(Path(f"{path}, its {part!r}"), saved[part]) for part in ("model", "generator")}
    return {part: saved[part] for part in parts} | tensors


def _tokens(path: Path, vocabulary: dict[str, Any], side: str) -> list[str]:
    tokens = vocabulary.get(side)
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise ModelError(f"{path}: its vocabulary {side!r} must be a list of words, as OpenNMT-py 3 writes it.")
    if vocabulary.get("src_feats"):
        raise ModelError(f"{path}: its vocabulary has source features (src_feats), which Sharpbeam lacks.")
    check_words(path, tokens)
    return tokens


def _add_special(lists: TokenLists, tensors: dict[str, Tensor], ids: Mapping[str, int]) -> None:
    """Add each special token that the source lacks, at its id: a model of version 2 has none that it never reads.

    Nothing ever names them, and their embeddings are zero.
    """
    for token in sorted(set(ids.values())):
        piece = lists.target[token]
        if piece not in lists.source and token <= len(lists.source) and "source_embedding" in tensors:
            lists.source = [*lists.source[:token], piece, *lists.source[token:]]
            tensors["source_embedding"] = with_zero_row(tensors["source_embedding"], token)


def _read_transformer(facts: Facts, w: Weights) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The facts of TransformerConfig except tokens, and the tensors."""
    t = Tensors(w)
    embeddings = [f"{side}.embeddings.make_embedding.emb_luts.0.weight" for side in ("encoder", "decoder")]
    sizes = t.add_embeddings(embeddings[:1], embeddings[1:], ("generator.weight",))
    activation, gated = facts.choice("pos_ffn_activation_fn", _ACTIVATIONS)
    epsilon = facts.get("norm_eps")
    if not isinstance(epsilon, float) or not 0 < epsilon < 1:
        raise facts.refusal("norm_eps", "a number between 0 and 1")
    t["output_bias"] = w.take("generator.bias", sizes["target_vocab_size"])
    sizes |= {
        "norm": "pre",
        "norm_epsilon": epsilon,
        "activation": activation,
        "gated_ffn": gated,
        "attention_bias": "encoder.transformer.0.self_attn.linear_query.bias" in w,
        "ffn_bias": "encoder.transformer.0.feed_forward.w_1.bias" in w,
    }
    for side in ("encoder", "decoder"):
        sizes |= {
            f"{side}_layers": facts.integer(f"{side[:3]}_layers"),
            f"{side}_heads": facts.integer("heads"),
            f"{side}_ffn_dim": w.matrix_shape(f"{side}.transformer.0.feed_forward.w_1.weight")[0],
        }
    positions, interleaved = _positions(facts, w, sizes["hidden_dim"])
    sizes |= positions
    add_tensors(t, sizes, _NAMES | _GATED if gated else _NAMES)
    w.check_all_taken()
    return sizes, with_sines_first(t, sizes["hidden_dim"]) if interleaved else t


def _positions(facts: Facts, w: Weights, dim: int) -> tuple[dict[str, Any], bool]:
    """The kind of positions, and whether they are interleaved. Tables in the file must be of that kind."""
    if not facts.flag("position_encoding"):
        return {"positions": "none", "scaled_embedding": False}, False
    kind = facts.choice("position_encoding_type", _POSITIONS)
    interleaved = kind == "sinusoidal"
    for side in ("encoder", "decoder"):
        name = f"{side}.embeddings.make_embedding.pe.pe"
        if name not in w:
            continue
        table = w.take(name, w.shape(name)[0] if w.shape(name) else 0, 1, dim)[:, 0]
        if recognize(table) != (kind, 0, interleaved):
            raise ModelError(f"{facts.path}: {name} is no table of {facts.get('position_encoding_type')}.")
    return {"positions": kind}, interleaved


def _newer(name: str) -> str:
    """The name that a tensor of the layers or of a norm has for us: of version 3, and the same on both sides."""
    for theirs, ours in _NEWER.items():
        name = name.replace(theirs, ours)
    return name
