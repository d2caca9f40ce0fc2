"""How many of the best tokens a Hugging Face `generate` call can look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MOST = 1024  # beyond it the full matrix is as fast

# Settings that read or change the scores of tokens beyond the best; each with the values that do nothing.
_WHOLE: Mapping[str, tuple[object, ...]] = {
    "assistant_model": (None,),
    "constraints": (None,),
    "custom_generate": (None,),
    "diversity_penalty": (None, 0.0),
    "dola_layers": (None,),
    "encoder_no_repeat_ngram_size": (None, 0),
    "encoder_repetition_penalty": (None, 1.0),
    "exponential_decay_length_penalty": (None,),
    "force_words_ids": (None,),
    "guidance_scale": (None, 1),
    "logits_processor": (None, []),
    "no_repeat_ngram_size": (None, 0),
    "num_beam_groups": (None, 1),
    "output_logits": (None, False),
    "output_scores": (None, False),
    "penalty_alpha": (None, 0.0),
    "prefix_allowed_tokens_fn": (None,),
    "prompt_lookup_num_tokens": (None,),
    "repetition_penalty": (None, 1.0),
    "sequence_bias": (None,),
    "watermarking_config": (None,),
}


def tokens_needed(defaults: Any, arguments: Sequence[Any], options: Mapping[str, Any]) -> int | None:
    """The number k such that the k best tokens of each row decide, or None where all tokens' scores may.

    `defaults` is the model's `generation_config`, `arguments` and `options` are those of the call to `generate`.
    Tokens that a call bans outright are added to what it needs.
    """
    config = options.get("generation_config", arguments[1] if len(arguments) > 1 else None)

    def value(name: str) -> Any:
        for setting in (options.get(name), getattr(config, name, None), getattr(defaults, name, None)):
            if setting is not None:
                return setting
        return None

    if len(arguments) > 2 or any(value(name) not in neutral for name, neutral in _WHOLE.items()):
        return None
    ends = _count(value("eos_token_id"))
    beams = value("num_beams") or 1
    need = max(2, 1 + ends) * beams if beams > 1 else 1
    if value("do_sample"):
        if not value("top_k"):
            return None
        need = max(need, value("top_k"), ends + 1)
    if value("min_length") or value("min_new_tokens"):
        need += ends
    need += sum(_count(value(name)) for name in ("suppress_tokens", "begin_suppress_tokens", "bad_words_ids"))
    return need if need <= MOST else None


def _count(ids: Any) -> int:
    if ids is None:
        return 0
    return len(ids) if hasattr(ids, "__len__") else 1
