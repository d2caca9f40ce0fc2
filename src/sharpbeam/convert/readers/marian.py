"""Models of Marian, transformers and students with an SSRU: model.npz or .bin, with its vocabularies -> ours.

Next to a model are the options of its decoder, its vocabularies and its shortlist. Names and meanings
are those of Marian's src/models/transformer.h; positions are sinusoids of tensor2tensor, norms have an epsilon of 1e-6.
The decoder starts from a zero vector, for which a token with a zero embedding is appended.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.foreign import ForeignModel, checked_decoding
from sharpbeam.convert.formats.marian import CONFIG, is_marian_file, read_marian_file, read_npz, read_options
from sharpbeam.convert.formats.spm import read_spm
from sharpbeam.convert.formats.weights import BFloat16, Stored, Tensor, Tensors, Weights
from sharpbeam.convert.readers.tokens import TokenLists
from sharpbeam.convert.readers.transformer import add_tensors, in_layers
from sharpbeam.errors import InputError, ModelError, SharpbeamError
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.storage.marian_shortlist import is_marian_shortlist, read_marian_shortlist

OUTPUT = "decoder_ff_logit_out"  # name of the output layer
# Names of the source's, the target's and the output layer's, which may be tied.
_EMBEDDINGS = (
    ("Wemb", "encoder_Wemb"),
    ("Wemb", "decoder_Wemb"),
    (f"{OUTPUT}_W", f"{OUTPUT}_Wt", "Wemb", "decoder_Wemb"),
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
NAMES = {
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
_YAML = (".yml", ".yaml")
SEARCH = {  # Marian's name -> ours
    "beam-size": "beam_size",
    "normalize": "length_penalty",
    "max-length-factor": "max_length_factor",
}


def read_marian(path: Path, source: Path | None, target: Path | None) -> ForeignModel:
    """The model in `path`: .npz, Marian's binary form, or YAML options that name it, with its files next to it.

    `source` and `target` are its vocabularies, if the caller names them. Raises ModelError or InputError.
    """
    options = path if path.suffix in _YAML else None
    path = _named_model(path) if options else path
    arrays: dict[str, Stored] = {**(read_marian_file(path) if is_marian_file(path) else read_npz(path))}
    config_bytes = arrays.pop(CONFIG, None)
    if not isinstance(config_bytes, np.ndarray):
        raise ModelError(f"{path} lacks {CONFIG}; it is no model of Marian.")
    facts = Facts(path, read_options(path, config_bytes.tobytes()))
    # Norms before a block have a suffix, which adds no information.
    names = {name: plain if (plain := name.removesuffix("_pre")) not in arrays else name for name in arrays}
    names = {name: ours for name, ours in names.items() if not name.startswith("special:")}
    arrays = {ours: _in_our_order(ours, arrays[name]) for name, ours in names.items()}
    tensors = Tensors(Weights(path, arrays))
    sizes = _read_transformer(facts, tensors)
    return _with_tokens(_find_files(path, options, source, target), sizes, tensors)


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
    sizes = tensors.add_embeddings(*_EMBEDDINGS, f"{OUTPUT}_b") | {
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
    add_tensors(tensors, sizes, NAMES | _NORM_OF_SSRU if before else NAMES)
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
    source, source_spm = _read_vocabulary(files.source, sizes["source_vocab_size"])
    target, target_spm = source, source_spm
    if (files.target, sizes["target_vocab_size"]) != (files.source, sizes["source_vocab_size"]):
        target, target_spm = _read_vocabulary(files.target, sizes["target_vocab_size"])
    lists = TokenLists(files.model, source, target, source_spm, target_spm)
    ids = {"unk_id": lists.id("unk", "<unk>"), "eos_id": lists.id("eos", "</s>")}
    tensors, start = lists.add_start(tensors)
    tokens = lists.tokens(ids | {"bos_id": start, "pad_id": start})
    config = TransformerConfig(**{**sizes, **tokens.facts, "suppressed_ids": (ids["unk_id"],)})
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


@dataclass(frozen=True)
class MarianFiles:
    """The files of one model."""

    model: Path
    source: Path  # vocabularies
    target: Path
    shortlist: Path | None  # a binary one
    decoding: Mapping[str, Any]  # the model's own search options
    notes: tuple[str, ...] = ()


def _find_files(model: Path, options: Path | None, source: Path | None, target: Path | None) -> MarianFiles:
    """The files that belong to `model`, except those that the caller names.

    Vocabularies are those that the options name, if they lie next to the model; else srcvocab.* and trgvocab.*; else
    the only one there. Raises ModelError if there is not one, and InputError for options that cannot be read.
    """
    options = options or _find_options(model)
    facts = read_options(options) if options else {}
    if source is None:
        vocabularies = _vocabularies(model, facts)
        source, target = vocabularies[0], target or vocabularies[-1]
    for path in (source, target or source, *(model.parent / name for name in _names(facts, "vocabs"))):
        if path.suffix in _YAML and path.is_file():  # its numbers are the embedding's, whatever else is given
            raise ModelError(f"{path} is a list of words; models whose vocabulary is of SentencePiece (.spm) are read.")
    for name in ("allow-unk", "word-penalty"):
        if "models" in facts and facts.get(name):
            raise Facts(options or model, facts).refusal(name, "0, or left out")
    shortlist, notes = _shortlist(model.parent, facts)
    search = {ours: facts[theirs] for theirs, ours in SEARCH.items() if "models" in facts and theirs in facts}
    decoding = checked_decoding(options or model, search)
    return MarianFiles(model, source, target or source, shortlist, decoding, notes)


def _named_model(options: Path) -> Path:
    """The model that a file of options names, which lies next to it."""
    names = _names(read_options(options), "models")
    if len(names) != 1:
        raise InputError(f"{options} names {len(names)} models; convert each alone, and join them as a+b.")
    path = options.parent / names[0]
    if not path.is_file():
        raise ModelError(f"{options} names the model {names[0]}, which does not lie next to it; copy it there.")
    return path


def _find_options(model: Path) -> Path | None:
    """The options that Marian writes for its decoder, or the only ones that name the model; or its training's."""
    naming = []
    for path in _files(model, *_YAML):
        try:
            naming += [path.name] if model.name in _names(read_options(path), "models") else []
        except SharpbeamError:
            if path.name.startswith("config"):  # others are vocabularies, or of other models
                raise
    names = (f"{model.name}.decoder.yml", *(naming if len(naming) == 1 else ()), f"{model.name}.yml")
    return next((path for name in names if (path := model.parent / name).is_file()), None)


def _files(model: Path, *endings: str) -> list[Path]:
    """The files next to `model` with one of these endings, except those that are named after it."""
    files = sorted(path for path in model.parent.iterdir() if path.suffix in endings and path.is_file())
    return [path for path in files if not path.name.startswith(f"{model.name}.")]


def _names(options: Mapping[str, Any], key: str) -> list[str]:
    """The file names in a list of paths; none if there is no such list."""
    paths = options.get(key)
    return [Path(str(path)).name for path in paths] if isinstance(paths, list) else []


def _vocabularies(model: Path, options: Mapping[str, Any]) -> list[Path]:
    """One or two vocabularies; raises ModelError if there is none, or more than one without names that tell which."""
    paths = [model.parent / name for name in _names(options, "vocabs")]
    if len(paths) in (1, 2) and all(path.is_file() for path in paths):
        return paths
    files = _files(model, ".spm")
    paths = [path for side in ("srcvocab", "trgvocab") for path in files if path.name.startswith(side)]
    if len(paths) == 2 and paths[1].name.startswith("trg"):
        return paths
    if len(files) != 1:
        raise ModelError(
            f"{model.parent} has {len(files)} vocabularies (.spm){''.join(f', {path.name}' for path in files)}; say "
            "which: --source-spm FILE, --target-spm FILE."
        )
    return files


def _shortlist(folder: Path, options: Mapping[str, Any]) -> tuple[Path | None, tuple[str, ...]]:
    """The binary shortlist that the options name, or the only one there; and a note about one that is not read."""
    paths = [folder / name for name in _names(options, "shortlist")[:1] if (folder / name).is_file()]
    paths = paths or [path for path in sorted(folder.glob("lex*.bin")) if path.is_file()]
    if len(paths) != 1 or is_marian_shortlist(paths[0]):
        return (paths[0] if len(paths) == 1 else None), ()
    return None, (f"Its shortlist {paths[0].name} is text, which is not read; fit shortlist makes one of pairs.",)


def _read_vocabulary(path: Path, size: int) -> tuple[list[str], bytes]:
    """The pieces of a SentencePiece model by id, and the model.

    Raises ModelError for a file that is none, or one with more pieces than `size`, the model's embeddings.
    """
    spm, pieces = read_spm(path)
    if len(pieces) > size:
        raise ModelError(f"{path} has {len(pieces)} pieces, but the model's embedding has {size}; give its vocabulary.")
    return [*pieces, *(f"<unused {i}>" for i in range(len(pieces), size))], spm
