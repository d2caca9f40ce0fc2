"""Hugging Face's MarianMT, M2M100 and NLLB: config.json, generation_config.json and weights -> ours.

What the classes of `transformers` compute (models/marian, models/m2m_100) stands in TransformerConfig's words here;
a fact that they would heed and we cannot say is refused by name. Older versions leave out of config.json what is a
default of the class, so the defaults are given here too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sharpbeam.convert.converted import SUPPRESSED_BIAS, Converted, checked_decoding
from sharpbeam.convert.facts import Facts
from sharpbeam.convert.formats.hugging_face import read_hugging_face_weights
from sharpbeam.convert.formats.json import read_json
from sharpbeam.convert.formats.weights import Tensor, Tensors, Weights, values
from sharpbeam.convert.readers.hugging_face_vocabulary import Words, read_words
from sharpbeam.convert.readers.positions import recognise
from sharpbeam.errors import ModelError
from sharpbeam.models.transformer.config import TransformerConfig

_ACTIVATIONS: dict[str, Literal["relu", "gelu", "gelu_sigmoid", "swish"]] = {
    "relu": "relu",
    "gelu": "gelu",
    "quick_gelu": "gelu_sigmoid",
    "swish": "swish",
    "silu": "swish",
}
_SIZES = {
    "max_position_embeddings": 1024,
    "encoder_layers": 12,
    "encoder_ffn_dim": 4096,
    "encoder_attention_heads": 16,
    "decoder_layers": 12,
    "decoder_ffn_dim": 4096,
    "decoder_attention_heads": 16,
    "d_model": 1024,
    "tie_word_embeddings": True,
}
_DEFAULTS: dict[str, dict[str, Any]] = {
    "marian": _SIZES
    | {
        "vocab_size": 58101,
        "activation_function": "gelu",
        "scale_embedding": False,
        "decoder_start_token_id": 58100,
        "pad_token_id": 58100,
        "eos_token_id": 0,
        "share_encoder_decoder_embeddings": True,
    },
    "m2m_100": _SIZES
    | {
        "vocab_size": 128112,
        "activation_function": "relu",
        "scale_embedding": True,
        "decoder_start_token_id": 2,
        "pad_token_id": 1,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "share_encoder_decoder_embeddings": True,
    },
}
# Options of `generate` that are not supported, and the value without an effect (as none, zero or an empty list).
_LACKED: dict[str, Any] = {
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
    "sequence_bias": None,
    "forced_decoder_ids": None,
    "encoder_no_repeat_ngram_size": None,
    "encoder_repetition_penalty": 1.0,
    "exponential_decay_length_penalty": None,
}
_SEARCH = {  # generation_config.json's name -> ours
    "num_beams": "beam_size",
    "length_penalty": "length_penalty",
    "no_repeat_ngram_size": "no_repeat_ngram_size",
    "repetition_penalty": "repetition_penalty",
    "max_length": "max_length",
    "min_length": "min_length",
    "early_stopping": "early_stopping",
}


def read_hugging_face(folder: Path) -> Converted:
    """The model in `folder`; raises ModelError where it is no MarianMT, M2M100 or NLLB, or has what we lack."""
    path = folder / "config.json"
    config = read_json(path)
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in _DEFAULTS:
        raise ModelError(f"{path}: model_type is {kind!r:.60}; it must be one of {', '.join(_DEFAULTS)}.")
    facts = Facts(path, config, _DEFAULTS[kind])
    generation_path = folder / "generation_config.json"
    said = read_json(generation_path) if generation_path.is_file() else {}
    generation = Facts(generation_path if said else path, {**_DEFAULTS[kind], **config, **said})
    _refuse_what_we_lack(facts, generation)
    model = _HuggingFaceTransformer(kind, facts, read_hugging_face_weights(folder))
    sizes = model.sizes()
    tensors = model.all_tensors(sizes)  # first, so that the sizes are sure
    words = read_words(
        folder, kind, sizes["source_vocab_size"], sizes["target_vocab_size"], _special(facts, generation)
    )
    words = _with_forced_language(words, generation)
    suppressed = _suppressed(generation)
    if suppressed and generation.flag("renormalize_logits"):
        bias = np.array(values(tensors["output_bias"]))
        bias[[token for token in suppressed if token < len(bias)]] += SUPPRESSED_BIAS
        tensors["output_bias"] = bias
        suppressed = ()  # the bias is enough, and costs nothing
    ours = TransformerConfig(**sizes, **words.facts, suppressed_ids=suppressed)
    return Converted(
        f"a {kind} model of Hugging Face",
        ours,
        tensors,
        words.source,
        words.target,
        _notes(generation),
        decoding=_decoding(generation),
    )


def _refuse_what_we_lack(facts: Facts, generation: Facts) -> None:
    """Raise ModelError by name for what would change the model's words."""
    for name in ("normalize_before", "normalize_embedding", "add_final_layer_norm", "add_bias_logits"):
        facts.require(name, [False])
    facts.require("static_position_embeddings", [True])
    facts.require("is_encoder_decoder", [True])
    if facts.get("quantization_config") is not None:
        raise facts.refusal("quantization_config", "left out; convert the model before it was quantised")
    for name, idle in _LACKED.items():
        if (value := generation.get(name)) and value != idle:
            raise generation.refusal(name, "left out; Sharpbeam lacks it")


def _with_forced_language(words: Words, generation: Facts) -> Words:
    """`words`, with the language that `generate` forces as the first word for the default target language.

    Raises ModelError where that is another word, for then our answers would begin otherwise.
    """
    forced = generation.get("forced_bos_token_id")
    if forced is None:
        return words
    code = next((code for code, token in words.languages.items() if type(forced) is int and token == forced), None)
    if code is None or not words.target_tag:
        raise generation.refusal("forced_bos_token_id", "left out, or the id of one of the target's languages")
    return replace(words, target_language=code)


def _special(facts: Facts, generation: Facts) -> dict[str, int]:
    """The ids of eos, pad and of what the decoder is fed first."""
    eos = generation.get("eos_token_id")
    if isinstance(eos, list) and len(eos) == 1:
        eos = eos[0]
    if type(eos) is not int or eos < 0:
        raise generation.refusal("eos_token_id", "one id; Sharpbeam lacks several ends")
    return {
        "bos_id": generation.integer("decoder_start_token_id"),
        "eos_id": eos,
        "pad_id": facts.integer("pad_token_id"),
    }


def _suppressed(generation: Facts) -> tuple[int, ...]:
    """Words that are never produced."""
    found = generation.get("bad_words_ids") or []
    if not isinstance(found, list) or not all(
        isinstance(words, list) and len(words) == 1 and type(words[0]) is int and words[0] >= 0 for words in found
    ):
        raise generation.refusal("bad_words_ids", "a list of single ids from 0; Sharpbeam lacks banned phrases")
    return tuple(sorted({words[0] for words in found}))


def _decoding(generation: Facts) -> dict[str, Any]:
    """The search options that `generate` has for this model by default; raises ModelError.

    Hugging Face counts the token that the decoder starts from in max_length and min_length.
    """
    found = {ours: generation.get(theirs) for theirs, ours in _SEARCH.items() if generation.get(theirs) is not None}
    for name in ("max_length", "min_length"):
        if type(found.get(name)) is int:
            found[name] = max(found[name] - 1, 0 if name == "min_length" else 1)
    if isinstance(found.get("early_stopping"), bool):
        found["early_stopping"] = str(found["early_stopping"]).lower()
    if found.get("beam_size") == 1:
        found.pop("early_stopping", None)  # greedy search has nothing to choose from
    return checked_decoding(generation.path, found)


def _notes(generation: Facts) -> tuple[str, ...]:
    """Notes for the user."""
    notes = []
    if (forced := generation.get("forced_eos_token_id")) is not None:
        notes.append(
            f"At max_length `generate` puts forced_eos_token_id={forced!r} in place of the last token, at no cost; "
            "Sharpbeam keeps the token, so only answers that are cut at max_length differ."
        )
    if generation.get("do_sample"):
        notes.append("`generate` samples from this model by default (do_sample); Sharpbeam searches unless asked.")
    return tuple(notes)


class _HuggingFaceTransformer:
    """The config and the weights of one model, and our tensors."""

    def __init__(self, kind: str, facts: Facts, weights: Weights) -> None:
        self.kind, self.facts, self.weights, self._tensors = kind, facts, weights, Tensors(weights)

    def sizes(self) -> dict[str, Any]:
        """The facts of TransformerConfig but for words and languages."""
        facts, vocab = self.facts, self.facts.integer("vocab_size")
        shared = facts.flag("share_encoder_decoder_embeddings") and not self._split_embeddings()
        decoder_vocab = facts.get("decoder_vocab_size") and facts.integer("decoder_vocab_size")
        found: dict[str, Any] = {
            "source_vocab_size": vocab,
            "target_vocab_size": vocab if shared else decoder_vocab or vocab,
            "hidden_dim": facts.integer("d_model"),
            "norm": "post" if self.kind == "marian" else "pre",
            "encoder_final_norm": self.kind != "marian",
            "decoder_final_norm": self.kind != "marian",
            "activation": facts.choice("activation_function", _ACTIVATIONS),
            "scaled_embedding": facts.flag("scale_embedding"),
            "shared_embedding": shared,
            "tied_output": facts.flag("tie_word_embeddings") and not self._split_output(shared),
        }
        for side in ("encoder", "decoder"):
            found |= {
                f"{side}_layers": facts.integer(f"{side}_layers"),
                f"{side}_heads": facts.integer(f"{side}_attention_heads"),
                f"{side}_ffn_dim": facts.integer(f"{side}_ffn_dim"),
            }
        return found | self._positions(found["hidden_dim"])

    def all_tensors(self, sizes: Mapping[str, Any]) -> dict[str, Tensor]:
        """All tensors in our names; raises ModelError where one is missing, of another shape, or left over."""
        w, t, dim = self.weights, self._tensors, sizes["hidden_dim"]
        source, target = sizes["source_vocab_size"], sizes["target_vocab_size"]
        if sizes["shared_embedding"]:
            t["target_embedding"] = w.take(next((name for name in _SHARED if name in w), _SHARED[0]), target, dim)
        else:
            t["source_embedding"] = w.take(_ENCODER_EMBEDDING, source, dim)
            t["target_embedding"] = w.take(_DECODER_EMBEDDING, target, dim)
        w.ignore(*_SHARED)
        if not sizes["tied_output"]:
            t["output_weight"] = w.take("lm_head.weight", target, dim)
        bias = "final_logits_bias"
        t["output_bias"] = w.take(bias, 1, target)[0] if bias in w else np.zeros(target, np.float32)
        for side in ("encoder", "decoder"):
            for layer in range(sizes[f"{side}_layers"]):
                self._layer(side, layer, dim, sizes[f"{side}_ffn_dim"])
            if sizes[f"{side}_final_norm"]:
                self._norm(f"{side}_norm", f"model.{side}.layer_norm", dim)
        if sizes["positions"] == "learned":
            for side, name in (("source", "encoder"), ("target", "decoder")):
                t[f"{side}_positions"] = w.take(_position_table(w, name), sizes["max_positions"], dim)
        w.ignore(*(_position_table(w, side) for side in ("encoder", "decoder")), "lm_head.weight")
        w.check_all_taken()
        return t

    def _layer(self, side: str, layer: int, dim: int, ffn: int) -> None:
        """One layer; the names of its tensors are those of both kinds of models."""
        theirs, ours = f"model.{side}.layers.{layer}", f"{side}.{layer}"
        self._attention(f"{theirs}.self_attn", f"{ours}.attention", dim)
        if side == "decoder":
            self._attention(f"{theirs}.encoder_attn", f"{ours}.cross", dim)
        self._norm(f"{ours}.ffn.norm", f"{theirs}.final_layer_norm", dim)
        self._linear(f"{ours}.ffn.up", [f"{theirs}.fc1"], ffn, dim)
        self._linear(f"{ours}.ffn.down", [f"{theirs}.fc2"], dim, ffn)

    def _attention(self, theirs: str, ours: str, dim: int) -> None:
        """One attention: its linear layers of one input become one."""
        self._norm(f"{ours}.norm", f"{theirs}_layer_norm", dim)
        self._linear(f"{ours}.out", [f"{theirs}.out_proj"], dim, dim)
        groups = {"qkv": "qkv"} if theirs.endswith("self_attn") else {"query": "q", "key_value": "kv"}
        for name, letters in groups.items():
            self._linear(f"{ours}.{name}", [f"{theirs}.{letter}_proj" for letter in letters], dim, dim)

    def _linear(self, ours: str, theirs: list[str], rows: int, columns: int) -> None:
        self._tensors.add_matrix(f"{ours}.weight", [f"{name}.weight" for name in theirs], rows, columns)
        self._tensors.add_vector(f"{ours}.bias", [f"{name}.bias" for name in theirs], rows)

    def _norm(self, ours: str, theirs: str, dim: int) -> None:
        self._tensors.add_vector(f"{ours}.weight", f"{theirs}.weight", dim)
        self._tensors.add_vector(f"{ours}.bias", f"{theirs}.bias", dim)

    def _positions(self, dim: int) -> dict[str, Any]:
        """The tables of positions, where they are there; else as the classes make them."""
        w = self.weights
        names = [name for name in (_position_table(w, "encoder"), _position_table(w, "decoder")) if name in w]
        offset = 0 if self.kind == "marian" else self.facts.integer("pad_token_id") + 1
        made = {"positions": "sinusoidal" if self.kind == "marian" else "sinusoidal-t2t", "position_offset": offset}
        if not names or self.kind == "m2m_100":  # M2M100 makes its table anew whatever the file says
            return made
        tables = [w.whole(name) for name in names]
        kinds = {recognise(table) if table.ndim == 2 and table.shape[1] == dim else None for table in tables}
        if None not in kinds and len(kinds) == 1:
            ((kind, first),) = filter(None, kinds)
            return {"positions": kind, "position_offset": first}
        if len(tables) < 2 or tables[0].shape != tables[1].shape:
            raise ModelError(f"{self.facts.path}: the tables of positions of encoder and decoder have different sizes.")
        return {"positions": "learned", "max_positions": len(tables[0])}

    def _split_embeddings(self) -> bool:
        """Whether encoder and decoder have embeddings of their own."""
        names = [name for name in (_ENCODER_EMBEDDING, _DECODER_EMBEDDING) if name in self.weights]
        return len(names) == 2 and not self._same(*names)

    def _split_output(self, shared: bool) -> bool:
        """Whether the output matrix is another one than the target embedding."""
        names = _SHARED if shared else (_DECODER_EMBEDDING,)
        embedding = next((name for name in names if name in self.weights), None)
        head = "lm_head.weight"
        return head in self.weights and embedding is not None and not self._same(head, embedding)

    def _same(self, one: str, other: str) -> bool:
        return np.array_equal(self.weights.whole(one), self.weights.whole(other))


_ENCODER_EMBEDDING, _DECODER_EMBEDDING = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
_SHARED = ("model.shared.weight", _DECODER_EMBEDDING, _ENCODER_EMBEDDING, "lm_head.weight")


def _position_table(weights: Weights, side: str) -> str:
    """The name of a table of positions: MarianMT and older M2M100 differ by a letter."""
    name = f"model.{side}.embed_positions.weight"
    return name if name in weights else name + "s"
