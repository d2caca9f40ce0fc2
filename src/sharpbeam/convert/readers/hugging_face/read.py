"""Any model of Hugging Face: its family, and the defaults of `generate` for it: special and banned tokens, search."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.foreign import ForeignModel, checked_decoding
from sharpbeam.convert.formats.hugging_face import read_hugging_face_weights
from sharpbeam.convert.formats.weights import Tensors, values
from sharpbeam.convert.readers.hugging_face.families import FAMILIES
from sharpbeam.convert.readers.hugging_face.tokens import read_tokens
from sharpbeam.convert.readers.tokens import SUPPRESSED_BIAS
from sharpbeam.errors import ModelError
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.text.json import read_json

# Options of `generate` that are not supported, and the value without an effect (as none, zero or an empty list).
_LACKED: dict[str, Any] = {
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
    "sequence_bias": None,
    "forced_decoder_ids": None,
    "encoder_no_repeat_ngram_size": None,
    "encoder_repetition_penalty": 1.0,
    "exponential_decay_length_penalty": None,
    "num_beam_groups": 1,
    "force_words_ids": None,
    "penalty_alpha": 0.0,
    "guidance_scale": 1.0,
}
_SEARCH = {  # generation_config.json's name -> ours
    "num_beams": "beam_size",
    **{name: name for name in ("length_penalty", "no_repeat_ngram_size", "repetition_penalty", "early_stopping")},
}


def read_hugging_face(folder: Path) -> ForeignModel:
    """The model in `folder`; raises ModelError if its family is none of FAMILIES, or it has a feature that we lack."""
    path = folder / "config.json"
    config = read_json(path)
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise ModelError(
            f"{path}: model_type is {kind!r:.60}. Sharpbeam converts models of the types {', '.join(FAMILIES)}; run "
            "others with transformers, and those without an encoder with vLLM or llama.cpp."
        )
    defaults, read = FAMILIES[kind]
    facts, generation = Facts(path, config, defaults), _generation(folder, config, defaults)
    facts.require("is_encoder_decoder", [True])
    if facts.get("quantization_config") is not None:
        raise facts.refusal("quantization_config", "left out; convert the model before it was quantized")
    for name, idle in _LACKED.items():
        if (value := generation.get(name)) and value != idle:
            raise generation.refusal(name, "left out; Sharpbeam lacks it")
    sizes, tensors = read(facts, Tensors(read_hugging_face_weights(folder)))
    tokens = read_tokens(folder, kind, sizes, _special_ids(facts, generation))
    sizes |= tokens.facts
    sizes |= _forced_facts(sizes.get("languages", {}), sizes.get("target_tag", False), generation)
    suppressed = _suppressed_ids(generation)
    if suppressed and generation.flag("renormalize_logits"):
        bias = np.array(values(tensors["output_bias"]))
        bias[[token for token in suppressed if token < len(bias)]] += SUPPRESSED_BIAS
        tensors["output_bias"] = bias
        suppressed = ()  # the bias is enough, and costs nothing
    return ForeignModel(
        f"a {kind} model of Hugging Face",
        TransformerConfig(**sizes, suppressed_ids=suppressed),
        tensors,
        tokens.source,
        tokens.target,
        _notes(generation),
        decoding=_search_options(generation),
    )


def _generation(folder: Path, config: Mapping[str, Any], defaults: Mapping[str, Any]) -> Facts:
    """The facts of generation_config.json, then of `config`, config.json, then the defaults of the class."""
    path = folder / "generation_config.json"
    own = read_json(path) if path.is_file() else {}
    facts = {**defaults, **config, **own}
    for name in ("eos_token_id", "forced_eos_token_id"):
        if isinstance(facts.get(name), list) and len(facts[name]) == 1:
            (facts[name],) = facts[name]
    return Facts(path if own else folder / "config.json", facts)


def _forced_facts(languages: Mapping[str, int], target_tag: bool, generation: Facts) -> dict[str, Any]:
    """The facts of the token that `generate` forces first, which may only be a tag if the model has languages."""
    forced = generation.get("forced_bos_token_id")
    if forced is None:
        return {}
    if not languages:
        return {"target_begin": (generation.integer("forced_bos_token_id"),)}
    code = next((code for code, token in languages.items() if type(forced) is int and token == forced), None)
    if code is None or not target_tag:
        raise generation.refusal("forced_bos_token_id", "left out, or the id of one of the target's languages")
    return {"target_language": code}


def _special_ids(facts: Facts, generation: Facts) -> dict[str, int]:
    """The ids of eos, pad and of the token that the decoder starts from."""
    if isinstance(generation.get("eos_token_id"), list):
        raise generation.refusal("eos_token_id", "one id; Sharpbeam lacks several ends")
    if generation.get("decoder_start_token_id") is None:
        start = "a token's id: that of </s> for mBART-50, of the language to translate into for mBART-cc25"
        raise generation.refusal("decoder_start_token_id", start)
    return {
        "bos_id": generation.integer("decoder_start_token_id"),
        "eos_id": generation.integer("eos_token_id"),
        "pad_id": facts.integer("pad_token_id"),
    }


def _suppressed_ids(generation: Facts) -> tuple[int, ...]:
    """Tokens that are never produced; eos is not one, which `generate` takes out of the list too."""
    lists = generation.get("bad_words_ids") or []
    if not isinstance(lists, list) or not all(
        isinstance(tokens, list) and len(tokens) == 1 and type(tokens[0]) is int and tokens[0] >= 0 for tokens in lists
    ):
        raise generation.refusal("bad_words_ids", "a list of single ids from 0; Sharpbeam lacks banned phrases")
    return tuple(sorted({tokens[0] for tokens in lists} - {generation.integer("eos_token_id")}))


def _search_options(generation: Facts) -> dict[str, Any]:
    """The search options that `generate` has for this model by default; raises ModelError."""
    options = {ours: generation.get(theirs) for theirs, ours in _SEARCH.items() if generation.get(theirs) is not None}
    options |= _lengths(generation)
    if isinstance(options.get("early_stopping"), bool):
        options["early_stopping"] = str(options["early_stopping"]).lower()
    if options.get("beam_size") == 1:
        options.pop("early_stopping", None)  # greedy search has nothing to choose from
    if generation.get("forced_eos_token_id") is not None:
        generation.require("forced_eos_token_id", [generation.integer("eos_token_id")])
        options["forced_eos"] = True
    return checked_decoding(generation.path, options)


def _lengths(generation: Facts) -> dict[str, int]:
    """max_length and min_length in new tokens; those of `generate` count the decoder's start, unless named new."""
    lengths = {}
    for name, least in (("max", 1), ("min", 0)):
        if generation.get(f"{name}_new_tokens") is not None:
            lengths[f"{name}_length"] = generation.integer(f"{name}_new_tokens")
        elif generation.get(f"{name}_length") is not None:
            lengths[f"{name}_length"] = max(generation.integer(f"{name}_length") - 1, least)
    return lengths


def _notes(generation: Facts) -> tuple[str, ...]:
    """Notes for the user."""
    sentences = []
    if generation.get("do_sample"):
        sentences.append("`generate` samples from this model by default (do_sample); Sharpbeam searches by default.")
    if generation.flag("renormalize_logits"):
        sentences.append(
            "`generate` renormalizes after min_length, repetition_penalty and no_repeat_ngram_size "
            "(renormalize_logits); Sharpbeam does so for banned words only, so scores with these rules differ."
        )
    tasks = generation.get("task_specific_params")
    tasks = [task for task in tasks.values() if isinstance(task, dict)] if isinstance(tasks, dict) else []
    prefixes = [prefix for task in tasks if isinstance(prefix := task.get("prefix"), str)]
    if quoted := ", ".join(repr(prefix) for prefix in prefixes if prefix and prefix.isprintable()):
        sentences.append(f"Its task depends on how a text begins, such as {quoted}; put it there yourself.")
    return tuple(sentences)
