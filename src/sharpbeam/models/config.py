"""Checks shared by the configs of all architectures."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from sharpbeam.errors import ModelError, OptionError
from sharpbeam.options.schema import build

T = TypeVar("T")


def check_sizes(config: Any) -> None:
    """Raise ModelError unless every size is 1 or more: each whole number that is no id, and not 0 by default."""
    for field in dataclasses.fields(config):
        is_size = type(value := getattr(config, field.name)) is int and not field.name.endswith("_id")
        if is_size and field.default != 0 and value < 1:
            raise ModelError(f"{field.name} is {value}; it must be 1 or more.")


def check_tied(config: Any) -> None:
    """Raise ModelError for a tied output matrix that does not have the shape of the embedding."""
    if config.tied_output and config.hidden_dim != config.embedding_dim:
        raise ModelError(
            f"tied_output needs hidden_dim = embedding_dim, but they are {config.hidden_dim} and "
            f"{config.embedding_dim}."
        )


def check_special_ids(config: Any, vocab_size: int, where: str) -> None:
    """Raise ModelError unless the ids of unk, bos, eos and pad are below `vocab_size`, that is, `where`."""
    for name in ("unk_id", "bos_id", "eos_id", "pad_id"):
        if not 0 <= getattr(config, name) < vocab_size:
            raise ModelError(f"{name} is {getattr(config, name)}; it must lie inside {where}.")


def check_translation(config: Any) -> None:
    """Raise ModelError unless embeddings, output matrix and special ids of a translation model fit its vocabularies."""
    if config.shared_embedding and config.source_vocab_size != config.target_vocab_size:
        raise ModelError(
            f"shared_embedding needs one vocabulary, but source_vocab_size is {config.source_vocab_size} "
            f"and target_vocab_size is {config.target_vocab_size}."
        )
    check_tied(config)
    check_special_ids(config, min(config.source_vocab_size, config.target_vocab_size), "both vocabularies")


def check_choices(config: Any) -> None:
    """Raise ModelError unless every Literal field of `config` holds one of its choices."""
    for name, hint in get_type_hints(type(config)).items():
        if get_origin(hint) is Literal and getattr(config, name) not in get_args(hint):
            raise ModelError(f"{name} is {getattr(config, name)!r}; it must be one of {', '.join(get_args(hint))}.")


def from_facts(config_type: Callable[..., T], facts: dict[str, Any]) -> T:
    """Build a config from a JSON object; an unknown, missing or mistyped key raises ModelError by name."""
    try:
        return build(config_type, facts, "config")
    except OptionError as error:
        raise ModelError(str(error)) from None
