"""Checks shared by the configs of all architectures."""

from __future__ import annotations

import dataclasses
import reprlib
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from sharpbeam.errors import ModelError, nearest

T = TypeVar("T")


def check_positive(config: Any, names: tuple[str, ...]) -> None:
    """Raise ModelError unless each named fact of `config` is 1 or more."""
    for name in names:
        if getattr(config, name) < 1:
            raise ModelError(f"{name} is {getattr(config, name)}; it must be 1 or more.")


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


def from_facts(config_type: type[T], facts: dict[str, Any]) -> T:
    """Build a config from a JSON object; an unknown, missing or mistyped key raises ModelError by name."""
    fields = {field.name: field for field in dataclasses.fields(config_type)}  # type: ignore[arg-type]
    hints, values = get_type_hints(config_type), {}
    for key, value in facts.items():
        if key not in fields:
            raise ModelError(f"unknown config key {key!r} (value {reprlib.repr(value)}).{nearest(key, fields)}")
        values[key] = _value(key, value, hints[key])
    for name, field in fields.items():
        if field.default is field.default_factory is dataclasses.MISSING and name not in facts:
            raise ModelError(f"config key {name!r} is missing.")
    return config_type(**values)


def _value(key: str, value: Any, hint: Any) -> Any:
    """`value` as the type that `hint` annotates; a JSON array stands for a tuple."""
    origin = get_origin(hint)
    wanted = {Literal: str, tuple: list, dict: dict}.get(origin, hint)
    of: type = get_args(hint)[0] if origin is tuple else get_args(hint)[1] if origin is dict else object
    if type(value) is not wanted:
        raise ModelError(f"config key {key!r} is {reprlib.repr(value)}; it must be of type {wanted.__name__}.")
    for item in value.values() if origin is dict else value if origin is tuple else ():
        if type(item) is not of:
            raise ModelError(f"config key {key!r} holds {reprlib.repr(item)}; it must hold type {of.__name__} only.")
    return tuple(value) if origin is tuple else value
