"""Checks shared by the configs of all architectures."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from sharpbeam.errors import ModelError, OptionError
from sharpbeam.options.schema import build

T = TypeVar("T")


def need(condition: bool, message: str) -> None:
    """Raise ModelError(message) unless `condition` holds."""
    if not condition:
        raise ModelError(message)


def check_sizes(config: Any) -> None:
    """Raise ModelError unless every size is 1 or more: each whole number that is no id, and not 0 by default."""
    for field in dataclasses.fields(config):
        is_size = type(value := getattr(config, field.name)) is int and not field.name.endswith("_id")
        need(not is_size or field.default == 0 or value >= 1, f"{field.name} is {value}; it must be 1 or more.")


def check_tied(config: Any) -> None:
    """Raise ModelError for a tied output matrix that does not have the shape of the embedding."""
    need(
        not config.tied_output or config.hidden_dim == config.embedding_dim,
        f"tied_output needs hidden_dim = embedding_dim, but they are {config.hidden_dim} and {config.embedding_dim}.",
    )


def check_special_ids(config: Any, vocab_size: int, where: str) -> None:
    """Raise ModelError unless the ids of unk, bos, eos and pad are below `vocab_size`, that is, `where`."""
    for name in ("unk_id", "bos_id", "eos_id", "pad_id"):
        token = getattr(config, name)
        need(0 <= token < vocab_size, f"{name} is {token}; it must lie inside {where}.")


def check_translation(config: Any) -> None:
    """Raise ModelError unless embeddings, output matrix and special ids of a translation model fit its vocabularies."""
    source, target = config.source_vocab_size, config.target_vocab_size
    need(
        not config.shared_embedding or source == target,
        f"shared_embedding needs one vocabulary, but source_vocab_size is {source} and target_vocab_size is {target}.",
    )
    check_tied(config)
    check_special_ids(config, min(source, target), "both vocabularies")


def check_choices(config: Any) -> None:
    """Raise ModelError unless every Literal field of `config` holds one of its choices."""
    for name, hint in get_type_hints(type(config)).items():
        if get_origin(hint) is Literal:
            value, choices = getattr(config, name), get_args(hint)
            need(value in choices, f"{name} is {value!r}; it must be one of {', '.join(choices)}.")


def from_facts(config_type: Callable[..., T], facts: dict[str, Any]) -> T:
    """Build a config from a JSON object; an unknown, missing or mistyped key raises ModelError by name."""
    try:
        return build(config_type, facts, "config")
    except OptionError as error:
        raise ModelError(str(error)) from None
