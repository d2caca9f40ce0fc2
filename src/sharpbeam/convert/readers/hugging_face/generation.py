"""The defaults of `generate` for a model: special tokens, banned tokens, search options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.foreign import checked_decoding

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


def refuse_lacking_options(generation: Facts) -> None:
    """Raise ModelError by name for an option that would change the answers and that Sharpbeam lacks."""
    for name, idle in _LACKED.items():
        if (value := generation.get(name)) and value != idle:
            raise generation.refusal(name, "left out; Sharpbeam lacks it")


def forced_facts(languages: Mapping[str, int], target_tag: bool, generation: Facts) -> dict[str, Any]:
    """The facts of the token that `generate` forces first: a language's makes that the default target language.

    Raises ModelError if that is another token of a model with languages: then our answers would begin otherwise.
    """
    forced = generation.get("forced_bos_token_id")
    if forced is None:
        return {}
    if not languages:
        return {"target_begin": (generation.integer("forced_bos_token_id"),)}
    code = next((code for code, token in languages.items() if type(forced) is int and token == forced), None)
    if code is None or not target_tag:
        raise generation.refusal("forced_bos_token_id", "left out, or the id of one of the target's languages")
    return {"target_language": code}


def special_ids(facts: Facts, generation: Facts) -> dict[str, int]:
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


def suppressed_ids(generation: Facts) -> tuple[int, ...]:
    """Tokens that are never produced; eos is not one, which `generate` takes out of the list too."""
    lists = generation.get("bad_words_ids") or []
    if not isinstance(lists, list) or not all(
        isinstance(tokens, list) and len(tokens) == 1 and type(tokens[0]) is int and tokens[0] >= 0 for tokens in lists
    ):
        raise generation.refusal("bad_words_ids", "a list of single ids from 0; Sharpbeam lacks banned phrases")
    return tuple(sorted({tokens[0] for tokens in lists} - {generation.integer("eos_token_id")}))


def search_options(generation: Facts) -> dict[str, Any]:
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
    """max_length and min_length in new tokens.

    `generate` prefers max_new_tokens to max_length, which counts the token that the decoder starts from; min likewise.
    """
    lengths = {}
    for name, least in (("max", 1), ("min", 0)):
        if generation.get(f"{name}_new_tokens") is not None:
            lengths[f"{name}_length"] = generation.integer(f"{name}_new_tokens")
        elif generation.get(f"{name}_length") is not None:
            lengths[f"{name}_length"] = max(generation.integer(f"{name}_length") - 1, least)
    return lengths


def notes(generation: Facts) -> tuple[str, ...]:
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
