"""Marian's YAML files of options, read by PyYAML's loader of texts; the one in C crashes on deep nesting."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from sharpbeam.errors import InputError, ModelError
from sharpbeam.text.lines import read_whole

_MOST_OPTIONS = 1 << 16  # bytes


def read_options(path: Path, raw: bytes | None = None) -> dict[str, Any]:
    """The options in a YAML file of Marian by name: str, int, bool, and lists of these; deeper values are left out.

    `raw` are its bytes if they are part of another file. Raises ModelError if the YAML is
    damaged, too long or holds no options, and InputError if the file cannot be read.
    """
    try:
        data = read_whole(path) if raw is None else raw.rstrip(b"\0")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}.") from error
    if len(data) > _MOST_OPTIONS:
        raise ModelError(f"{path}: its options have {len(data)} bytes; at most {_MOST_OPTIONS} are read.")
    try:
        options = yaml.load(data.decode("utf-8", "replace"), Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ModelError(f"{path}: its options are not YAML ({' '.join(str(error).split())[:200]}).") from error
    if not isinstance(options, dict):
        raise ModelError(f"{path} holds no options; they are lines `name: value`.")
    return {name: _typed(value) for name, value in options.items() if isinstance(name, str) and not _is_deep(value)}


def _is_deep(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and not all(isinstance(item, str) for item in value))


def _typed(value: Any) -> Any:
    """The int or bool that a text of YAML stands for; other texts as they are, and lists item by item."""
    if isinstance(value, list):
        return [_typed(item) for item in value]
    if value in ("true", "false"):
        return value == "true"
    return int(value) if re.fullmatch(r"-?[0-9]{1,18}", value) else value
